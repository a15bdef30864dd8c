import { readFileSync } from 'node:fs';
import { parse } from 'yaml';

export const PAGE = readFileSync('docs/helm.md', 'utf8');
/** Values in docs/helm.md by the name of their file. */
export const EXAMPLES = Object.fromEntries(
  [...PAGE.matchAll(/^```yaml\n# (\S+)\n(.*?)^```/gms)].map(([, file = '', text = '']) => [file, parse(text)]),
);

export const ACCOUNT = {
  name: 'production',
  baseUrl: 'https://delivery.example.com',
  token: { file: '/run/secrets/delivery-watch/token' },
};
const MONITORED = {
  serviceMonitor: { enabled: true },
  prometheusRule: { enabled: true },
  dashboards: { enabled: true },
};
export const ONE = { config: { accounts: [ACCOUNT] }, ...MONITORED };
export const REPLICAS = { ...ONE, postgres: { enabled: true } };
const REPLICAS_WITH_FILE = {
  ...REPLICAS,
  config: { accounts: [ACCOUNT], store: { url: { file: '/run/secrets/delivery-watch/url' } } },
};
/** Sets every value that adds something. */
export const EVERYTHING = {
  fullnameOverride: 'watch',
  image: { repository: 'ghcr.io/example/delivery-watch', digest: `sha256:${'0'.repeat(64)}`, pullPolicy: 'Always' },
  imagePullSecrets: [{ name: 'registry' }],
  ...ONE,
  config: { accounts: [ACCOUNT], server: { webConfigFile: '/run/secrets/web/web.yaml' } },
  existingSecret: '007',
  persistence: { size: '5Gi', storageClassName: 'fast' },
  service: { annotations: { a: 'true' }, ipFamilyPolicy: 'PreferDualStack', ipFamilies: ['IPv6', 'IPv4'] },
  ingress: {
    enabled: true,
    className: 'nginx',
    annotations: { a: '1' },
    hosts: ['dw.example.com'],
    from: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'traefik' } } }],
    tls: [{ secretName: 'dw-tls', hosts: ['dw.example.com'] }],
  },
  networkPolicy: {
    extraEgress: [{ to: [{ namespaceSelector: {} }], ports: [{ port: 9093, protocol: 'TCP' }] }],
  },
  serviceMonitor: {
    enabled: true,
    labels: { release: 'prometheus' },
    interval: '30s',
    endpoint: { scheme: 'https', tlsConfig: { insecureSkipVerify: true }, scrapeTimeout: '10s' },
  },
  prometheusRule: { enabled: true, labels: { release: 'prometheus' }, slo: true },
  dashboards: { enabled: true, annotations: { grafana_folder: 'Delivery' }, namespace: 'grafana' },
  serviceAccount: { annotations: { a: 'b' } },
  podAnnotations: { a: '1' },
  podLabels: { team: 'payments' },
  nodeSelector: { 'kubernetes.io/os': 'linux' },
  tolerations: [{ operator: 'Exists' }],
  affinity: { nodeAffinity: {} },
  priorityClassName: 'monitoring',
  extraEnv: [{ name: 'HTTPS_PROXY', value: 'http://proxy.example.com:3128' }],
  extraVolumes: [{ name: 'web', secret: { secretName: 'web' } }],
  extraVolumeMounts: [{ name: 'web', mountPath: '/run/secrets/web', readOnly: true }],
};
const EXISTING = {
  existingConfigMap: 'own',
  persistence: { existingClaim: 'old' },
  serviceAccount: { create: false },
  podMonitor: { enabled: true, endpoint: { relabelings: [{ targetLabel: 'cluster', replacement: 'a' }] } },
};
const WITHOUT_VOLUME = { persistence: { enabled: false }, networkPolicy: { from: [], egress: null } };

const OWN_FILE = `server: { listen: 0.0.0.0:10922, public: true, probesListen: 0.0.0.0:10923 }
accounts: [{ name: a, baseUrl: 'https://delivery.example.com', token: { file: /run/secrets/delivery-watch/a } }]`;
/** Resources outside of a release that `EXISTING` names. */
export const OUTSIDE = [
  { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'own' }, data: { 'config.yaml': OWN_FILE } },
  { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'default' } },
];

/** Chart values by the name of the setup. */
export const SETUPS: Readonly<Record<string, object>> = {
  'no values': {},
  ...EXAMPLES,
  'a file for one process': ONE,
  'a file for replicas': REPLICAS,
  'a database URL in a file': REPLICAS_WITH_FILE,
  'all values': EVERYTHING,
  'existing objects': EXISTING,
  'no volume': WITHOUT_VOLUME,
};
