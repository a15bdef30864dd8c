import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, globSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, delimiter, dirname, join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { ACCOUNT, EVERYTHING, EXAMPLES, ONE, OUTSIDE, PAGE, REPLICAS, SETUPS } from '../deploy/chart-setups.ts';
import { compile } from '../deploy/compile.ts';
import { lint } from '../deploy/lint.ts';
import { readManifests } from '../deploy/manifests.ts';
import { againstSchema } from '../deploy/schemas.ts';
import { mainFile } from '../support/bundle.ts';
import { newFolder } from '../support/folder.ts';
import { bothVersions, findNewer } from '../support/newer-packages.ts';

const CHART = 'deploy/helm/delivery-watch';

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly labels?: object };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: unknown;
}

const helm = findNewer('helm');
const kubectl = findNewer('kubectl');

/** Runs Helm. Its errors are without the messages about the link `files` in the chart. */
function run(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(helm as string, args, { encoding: 'utf8' });
  return { status, stdout, stderr: stderr.replace(/^level=INFO msg="found symbolic link.*\n/gm, '').trim() };
}

const valuesFile = (values: object) => {
  const file = join(newFolder(), 'values.yaml');
  writeFileSync(file, JSON.stringify(values));
  return file;
};

const rendered = new Map<string, Manifest[]>();

function render(
  values: object,
  { chart = CHART, release = 'delivery-watch', options = [] as string[] } = {},
): Manifest[] {
  const id = JSON.stringify([values, chart, release, options]);
  const known = rendered.get(id);
  if (known) return known;
  const args = ['template', release, chart, '-n', 'monitoring', '-f', valuesFile(values), ...options];
  const { status, stdout, stderr } = run(...args);
  expect([status, stderr]).toEqual([0, '']);
  const manifests = readManifests({ all: stdout }) as Manifest[];
  rendered.set(id, manifests);
  return manifests;
}

const find = (manifests: readonly Manifest[], kind: string, name?: string) => {
  const found = manifests.filter(each => each.kind === kind && (name === undefined || each.metadata.name === name));
  expect(found, `${kind} ${name}`).toHaveLength(1);
  return found[0] as Manifest;
};
const podOf = (manifests: readonly Manifest[]) => {
  const workload = manifests.find(({ kind }) => kind === 'StatefulSet' || kind === 'Deployment');
  if (workload === undefined) throw new Error('there is no workload');
  return (workload.spec as { template: { metadata: object; spec: Record<string, unknown> } }).template;
};
const configOf = (manifests: readonly Manifest[], name = 'delivery-watch') =>
  parse(find(manifests, 'ConfigMap', name).data?.['config.yaml'] ?? '');

/** Labels that Helm's conventions require in addition to Kustomize's. */
const HELM_LABELS = ['app.kubernetes.io/instance', 'app.kubernetes.io/version', 'app.kubernetes.io/managed-by'];

/** Returns resources by kind and name, without namespaces, the checksum and Helm's labels, and with parsed configurations. */
function normalised(manifests: readonly Manifest[]): Record<string, unknown> {
  const text = JSON.stringify(manifests, (key, value) =>
    key === 'namespace' || key === 'helm.sh/chart' || HELM_LABELS.includes(key) || value?.['checksum/fixed-settings']
      ? undefined
      : key === 'config.yaml'
        ? parse(value)
        : value,
  );
  const parsed: Manifest[] = JSON.parse(text);
  return Object.fromEntries(parsed.map(each => [`${each.kind} ${each.metadata.name}`, each]));
}

const sorted = (text = '') => text.split('\n').filter(Boolean).sort();

describe.skipIf(helm === undefined)('Helm chart', () => {
  it.each(Object.entries(SETUPS))('lint accepts the chart with %s', (_, values) => {
    const { status, stdout, stderr } = run('lint', '--strict', CHART, '-f', valuesFile(values));
    expect([status, stderr]).toEqual([0, '']);
    expect(stdout).toContain('1 chart(s) linted, 0 chart(s) failed');
  });

  it.each(Object.entries(SETUPS))('with %s, all resources are valid and their references resolve', (_, values) => {
    const manifests = render(values);
    expect(manifests.map(againstSchema).filter(Boolean)).toEqual([]);
    expect(lint([...manifests, ...OUTSIDE])).toEqual([]);
  });

  it('resources contain only valid keys', () => {
    const manifests = Object.values(SETUPS).flatMap(values => render(values));
    expect(compile(manifests.filter(({ metadata }) => !metadata.name.includes('-dashboard-')))).toBe('');
  });

  it('docs/helm.md contains two examples of values: one for many accounts and one for PostgreSQL', () => {
    expect(Object.keys(EXAMPLES)).toEqual(['many.yaml', 'postgres.yaml']);
  });

  it.skipIf(kubectl === undefined).each([
    ['standalone', ONE],
    ['replicas', REPLICAS],
  ])('the resources equal those of the Kustomize overlay %s', (overlay, values) => {
    const built = execFileSync(kubectl as string, ['kustomize', `deploy/kubernetes/overlays/${overlay}`], {
      encoding: 'utf8',
      maxBuffer: 16 * 1024 * 1024,
    });
    const expected = normalised(readManifests({ all: built }) as Manifest[]);
    expect(Object.keys(expected).length).toBeGreaterThan(9);
    expect(normalised(render(values))).toEqual(expected);
  });

  it('the PodMonitor has the same settings as the PodMonitor for sidecars', () => {
    interface Spec {
      readonly podMetricsEndpoints: readonly object[];
    }
    const shipped = parse(readFileSync('deploy/kubernetes/overlays/sidecar/pod-monitor.yaml', 'utf8')).spec as Spec;
    const { podMetricsEndpoints, ...others } = find(render({ podMonitor: { enabled: true } }), 'PodMonitor')
      .spec as Spec;
    expect(podMetricsEndpoints).toEqual(shipped.podMetricsEndpoints.map(each => ({ ...each, port: 'http' })));
    expect({ ...others, selector: {} }).toEqual({ ...shipped, podMetricsEndpoints: undefined, selector: {} });
  });

  it.each([
    [
      { postgres: { replicas: -1 }, persistence: { size: 'big' }, image: { pullPolicy: 'Sometimes' } },
      [
        "at '/postgres/replicas': minimum: got -1, want 0",
        "at '/persistence/size': 'big' does not match pattern '^[0-9]+(\\\\.[0-9]+)?([KMGTP]i?)?$'",
        "at '/image/pullPolicy': value must be one of '', 'Always', 'IfNotPresent', 'Never'",
      ],
    ],
    [
      { dashboard: {}, serviceMonitor: { enable: true } },
      [
        "at '': additional properties 'dashboard' not allowed",
        "at '/serviceMonitor': additional properties 'enable' not allowed",
      ],
    ],
    [
      {
        config: {
          accounts: [{ name: 'a', token: 'token-canary', actionToken: { file: '/a' } }],
          store: { url: 'postgres://a:token-canary@db/a' },
        },
      },
      [
        "at '/config/accounts/0/token': got string, want null or object",
        "at '/config/store/url': got string, want null or object",
      ],
    ],
    [
      { image: { repository: 'a:1.2', tag: '1/2' }, existingSecret: 'A_b', service: null },
      [
        "at '': missing property 'service'",
        "at '/image/repository': 'a:1.2' does not match pattern '^[^:@\\\\s]+(:[0-9]+/[^:@\\\\s]+)?$'",
        "at '/image/tag': '1/2' does not match pattern '^(\\\\w[\\\\w.-]{0,127})?$'",
        "at '/existingSecret': 'A_b' does not match pattern '^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$'",
      ],
    ],
    [
      {
        podLabels: { 'app.kubernetes.io/name': 'a', 'app.kubernetes.io/part-of': 'b' },
        serviceMonitor: { endpoint: { path: '/a', scheme: 'https' } },
        resources: { requests: { memry: '1Gi', 'example.com/a': 1 }, limits: { cpu: 'half', memory: 1.5e9 } },
      },
      [
        "at '': invalid propertyName 'app.kubernetes.io/name'",
        "at '': 'not' failed",
        "at '': invalid propertyName 'path'",
        "at '': 'not' failed",
        "at '': invalid propertyName 'memry'",
        "at '': 'memry' does not match pattern '^(cpu|memory|ephemeral-storage|hugepages-.+|.+/.+)$'",
        "at '/resources/limits/cpu': 'half' does not match pattern '^[0-9]+(\\\\.[0-9]+)?(m|k|[MGTPE]|[KMGTPE]i)?$'",
      ],
    ],
    [
      { postgres: { to: [] }, podAnnotations: { 'checksum/fixed-settings': 'a' } },
      [
        "at '/postgres/to': minItems: got 0, want 1",
        "at '': invalid propertyName 'checksum/fixed-settings'",
        "at '': 'not' failed",
      ],
    ],
    [{ postgres: { to: null } }, ["at '/postgres': missing property 'to'"]],
    [
      { config: { server: { listen: '0.0.0.0:80' }, accounts: {} }, podAnnotations: { a: 1 }, existingSecret: 7 },
      [
        "at '/config/server/listen': '0.0.0.0:80' does not match pattern ':10922$'",
        "at '/config/accounts': got object, want array",
        "at '/podAnnotations/a': got number, want string",
        "at '/existingSecret': got number, want string",
      ],
    ],
  ])('the wrong values %j are all reported', (values, messages) => {
    const { status, stderr } = run('template', 'delivery-watch', CHART, '-f', valuesFile(values));
    expect(status).toBe(1);
    expect(stderr).not.toContain('token-canary');
    const lines = [...stderr.matchAll(/^ *- (.*)$/gm)].map(([, line]) => line);
    expect(lines.filter(line => !line?.endsWith('validation failed')).sort()).toEqual(messages.sort());
  });

  it.each([
    [{ ...ONE, existingConfigMap: 'own' }, 'set either config or existingConfigMap'],
    [
      { config: { log: { level: 'debug' } } },
      'config.accounts is required; without config, the Secret names the account',
    ],
    [{ postgres: { enabled: true } }, 'postgres.enabled needs config or existingConfigMap'],
    [
      { config: { accounts: [ACCOUNT], store: { kind: 'sqlite' } }, postgres: { enabled: true } },
      'config.store.kind contradicts postgres.enabled',
    ],
    [
      { config: { accounts: [ACCOUNT], store: { kind: 'postgres', url: { env: 'URL' } } } },
      'config.store.kind contradicts postgres.enabled',
    ],
    [
      { ...REPLICAS, persistence: { existingClaim: 'old' } },
      'persistence.existingClaim needs persistence.enabled without postgres.enabled',
    ],
    [
      { persistence: { enabled: false, existingClaim: 'old' } },
      'persistence.existingClaim needs persistence.enabled without postgres.enabled',
    ],
    [{ extraEnv: [{ name: 'DELIVERY_URL', value: 'a' }] }, 'extraEnv must not repeat the variable DELIVERY_URL'],
    [{ ...ONE, extraEnv: [{ name: 'A' }, { name: 'A' }] }, 'extraEnv must not repeat the variable A'],
    [
      { serviceAccount: { create: false, annotations: { a: 'b' } } },
      'serviceAccount.annotations needs serviceAccount.create',
    ],
    [
      { prometheusRule: { enabled: true, slo: true, groups: [{ name: 'own' }] } },
      'set either prometheusRule.slo or prometheusRule.groups',
    ],
    [
      { serviceMonitor: { enabled: true }, podMonitor: { enabled: true } },
      'enable either serviceMonitor or podMonitor: with both, Prometheus scrapes each pod twice',
    ],
    [{ ingress: { enabled: true } }, 'ingress.hosts is required'],
    [
      { ...ONE, ingress: { enabled: true, hosts: ['dw.example.com'] } },
      'ingress.enabled needs config.server.webConfigFile, or config.server.public: true if the Ingress authenticates users',
    ],
  ])('the contradictory values %j are an error', (values, message) => {
    const { status, stderr } = run('template', 'delivery-watch', CHART, '-f', valuesFile(values));
    expect([status, stderr]).toEqual([1, expect.stringContaining(`: ${message}`)]);
  });

  it.each(['7team', 'team.a', 'a'.repeat(29), 'delivery-watch-'.padEnd(44, 'a')])(
    'the release name %s needs fullnameOverride, because its resources would have invalid names',
    release => {
      const args = ['template', release, CHART];
      const name = release.includes('delivery-watch') ? release : `${release}-delivery-watch`;
      const { status, stderr } = run(...args);
      expect([status, stderr]).toEqual([
        1,
        expect.stringContaining(`: resources cannot be named ${name}: set fullnameOverride`),
      ]);
      expect(run(...args, '--set', 'fullnameOverride=watch').status).toBe(0);
    },
  );

  it('the chart keeps the settings in config, and adds the settings that the pods require', () => {
    const server = { public: false, listen: '[::]:10922', maxConnections: 1_000_000 };
    const store = { schema: 'watch', lease: '30s' };
    const config = { server, store, accounts: [{ ...ACCOUNT, labels: { id: '0123', on: 'yes' } }] };
    expect(configOf(render({ config, postgres: { enabled: true } }), 'delivery-watch-replicas')).toEqual({
      ...config,
      server: { ...server, probesListen: '0.0.0.0:10923', replicaUrl: { env: 'REPLICA_URL' } },
      store: { ...store, kind: 'postgres', url: { env: 'DATABASE_URL' } },
    });
    expect(configOf(render({ config })).store).toEqual(store);
    const open = { config: { accounts: [ACCOUNT] }, networkPolicy: { enabled: false } };
    expect(configOf(render(open)).server.public).toBe(false);
    expect(configOf(render(EVERYTHING), 'watch').server.public).toBe(false);
  });

  it('if store.url names a file, the pods get no variable DATABASE_URL', () => {
    const url = { file: '/run/secrets/delivery-watch/url' };
    const manifests = render({ ...REPLICAS, config: { accounts: [ACCOUNT], store: { url } } });
    expect(configOf(manifests, 'delivery-watch-replicas').store).toEqual({ kind: 'postgres', url });
    expect(JSON.stringify(podOf(manifests))).not.toContain('DATABASE_URL');
  });

  it('the pods are replaced if and only if a setting changes that a reload refuses', () => {
    const at = (server: object, store: object, postgres = {}) =>
      podOf(render({ config: { accounts: [ACCOUNT], server, store }, ...postgres }));
    const before = at({}, {});
    expect(at({ externalUrl: 'https://dw.example.com' }, { history: { keep: '72h' } })).toEqual(before);
    for (const server of [{ replicaUrl: 'http://a:10922' }, { listen: '[::]:10922' }, { webConfigFile: '/web.yaml' }])
      expect(at(server, {})).not.toEqual(before);
    for (const store of [{ kind: 'memory' }, { path: '/app/data/new.db' }]) expect(at({}, store)).not.toEqual(before);
    const postgres = { postgres: { enabled: true } };
    for (const store of [{ schema: 'new' }, { lease: '30s' }])
      expect(at({}, store, postgres)).not.toEqual(at({}, {}, postgres));
  });

  it('null removes egress rules and the security context of the pod', () => {
    const manifests = render({
      networkPolicy: { egress: null },
      podSecurityContext: null,
      podMonitor: { enabled: true, endpoint: null },
    });
    expect(find(manifests, 'NetworkPolicy').spec).toMatchObject({ egress: [] });
    expect(podOf(manifests).spec.securityContext).toEqual({ fsGroupChangePolicy: 'OnRootMismatch' });
  });

  it('without a configuration, the URL and token of the account come from the Secret, and probes use the only port', () => {
    const manifests = render({});
    expect(manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`).sort()).toEqual(
      ['NetworkPolicy', 'Service', 'ServiceAccount', 'StatefulSet'].map(kind => `${kind} delivery-watch`),
    );
    const [container] = podOf(manifests).spec.containers as [Record<string, unknown>];
    expect(container).toMatchObject({
      args: ['serve'],
      env: ['DELIVERY_URL', 'DELIVERY_TOKEN'].map(key => ({
        name: key,
        valueFrom: { secretKeyRef: { name: 'delivery-watch', key } },
      })),
      readinessProbe: { httpGet: { path: '/-/ready', port: 'http' } },
    });
  });

  it('null removes the user and group ids, and the other restrictions remain', () => {
    const ids = { runAsUser: null, runAsGroup: null, fsGroup: null };
    const { securityContext, containers } = podOf(render({ podSecurityContext: ids })).spec;
    expect(securityContext).toEqual({
      runAsNonRoot: true,
      fsGroupChangePolicy: 'OnRootMismatch',
      seccompProfile: { type: 'RuntimeDefault' },
    });
    expect(containers).toMatchObject([
      {
        securityContext: {
          readOnlyRootFilesystem: true,
          allowPrivilegeEscalation: false,
          capabilities: { drop: ['ALL'] },
        },
      },
    ]);
    const none = { ...ids, runAsNonRoot: null, seccompProfile: null };
    const options = { postgres: { enabled: true }, config: { accounts: [ACCOUNT] }, podSecurityContext: none };
    expect(podOf(render(options)).spec.securityContext).toEqual({});
  });

  it('two releases in a namespace have different names, and do not select the pods of each other', () => {
    const [one, other] = ['delivery-watch', 'second'].map(release => render(ONE, { release }));
    const namesOf = (manifests: readonly Manifest[] = []) =>
      manifests.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
    expect(namesOf(other)).toEqual(namesOf(one).map(name => name.replace('delivery-watch', 'second-delivery-watch')));
    const selectors = [...JSON.stringify(one).matchAll(/"(?:matchLabels|selector)":(\{"app[^}]*\})/g)];
    const own = selectors.map(([, selector = '']) => parse(selector)['app.kubernetes.io/instance']);
    // The last one is Prometheus in the NetworkPolicy.
    expect(own.filter(Boolean)).toEqual(Array(4).fill('delivery-watch'));
    expect(own.filter(each => !each)).toHaveLength(1);
  });

  it('the chart contains the dashboards and rules of the folder dashboards/, and its rules pass promtool', () => {
    const manifests = render(EVERYTHING);
    const dashboards = manifests.filter(({ metadata }) => metadata.name.includes('-dashboard-'));
    const files = globSync('dashboards/*.json').map(file => basename(file));
    const keys = dashboards.flatMap(({ data }) => Object.keys(data ?? {}));
    expect(keys.sort()).toEqual(files.map(file => `delivery-watch-${file}`).sort());
    for (const { metadata, data } of dashboards) {
      expect(metadata).toMatchObject({ namespace: 'grafana', labels: { grafana_dashboard: '1' } });
      for (const [file, text] of Object.entries(data ?? {}))
        expect(text).toBe(readFileSync(`dashboards/${file.replace('delivery-watch-', '')}`, 'utf8'));
    }
    const groups = ['alerting', 'slo'].flatMap(
      name => parse(readFileSync(`dashboards/rules/${name}.yaml`, 'utf8')).groups,
    );
    const rule = find(manifests, 'PrometheusRule').spec;
    expect(rule).toEqual({ groups });
    const file = valuesFile(rule as object);
    for (const promtool of bothVersions('promtool'))
      expect(execFileSync(promtool, ['check', 'rules', file], { encoding: 'utf8' })).toContain('SUCCESS');
  });

  it('rules and dashboards cannot be enabled in a copy of the chart without its symbolic link', () => {
    const folder = newFolder();
    for (const name of readdirSync(CHART).filter(each => each !== 'files'))
      cpSync(join(CHART, name), join(folder, name), { recursive: true });
    for (const key of ['prometheusRule', 'dashboards']) {
      const { status, stderr } = run('template', 'delivery-watch', folder, '--set', `${key}.enabled=true`);
      expect([status, stderr]).toEqual([1, expect.stringContaining('its symbolic link `files` was not copied')]);
    }
    expect(run('template', 'delivery-watch', folder).status).toBe(0);
  });

  it('prometheusRule.groups replaces the shipped rules', () => {
    const groups = [{ name: 'own', rules: [{ record: 'a', expr: '1' }] }];
    expect(find(render({ prometheusRule: { enabled: true, groups } }), 'PrometheusRule').spec).toEqual({
      groups,
    });
  });

  it('Service and Ingress lead to the port, through both address families if configured', () => {
    const manifests = render({
      postgres: { enabled: true },
      config: { accounts: [ACCOUNT], server: { public: true } },
      ingress: { enabled: true, hosts: ['dw.example.com'] },
    });
    const service = { name: 'delivery-watch-replicas', port: { name: 'http' } };
    expect(find(manifests, 'Ingress').spec).toEqual({
      rules: [{ host: 'dw.example.com', http: { paths: [{ path: '/', pathType: 'Prefix', backend: { service } }] } }],
    });
    const labels = { 'kubernetes.io/metadata.name': 'ingress-nginx' };
    expect(find(manifests, 'NetworkPolicy', 'delivery-watch').spec).toMatchObject({
      ingress: [{ from: [{ podSelector: {} }, { namespaceSelector: { matchLabels: labels } }] }],
    });
    expect(find(manifests, 'Service', service.name).spec).toMatchObject({ ports: [{ name: 'http', port: 10922 }] });
    expect(find(render(EVERYTHING), 'Service').spec).toMatchObject({
      ipFamilyPolicy: 'PreferDualStack',
      ipFamilies: ['IPv6', 'IPv4'],
    });
  });

  it('the notes name the workload and the Secret', () => {
    const notes = (values: object) =>
      run(
        'install',
        'delivery-watch',
        CHART,
        '-n',
        'monitoring',
        '--dry-run=client',
        '-f',
        valuesFile(values),
      ).stdout.replace(/.*^NOTES:\n/ms, '');
    expect(notes({})).toContain('kubectl rollout status -n monitoring statefulset/delivery-watch\n');
    expect(notes({ existingSecret: 'own' })).toContain('The Secret own contains DELIVERY_URL and DELIVERY_TOKEN.');
    expect(notes(REPLICAS)).toContain('kubectl rollout status -n monitoring deployment/delivery-watch-replicas\n');
    expect(notes(REPLICAS)).not.toContain('Secret');
  });

  it('the commands in docs/helm.md have the documented output', () => {
    const folder = newFolder();
    symlinkSync(resolve('deploy'), join(folder, 'deploy'));
    for (const [file, values] of Object.entries(EXAMPLES)) writeFileSync(join(folder, file), JSON.stringify(values));
    mkdirSync(join(folder, 'bin'));
    const program = `#!/bin/sh\nexec '${process.execPath}' '${resolve(mainFile())}' "$@"\n`;
    writeFileSync(join(folder, 'bin/delivery-watch'), program, { mode: 0o755 });
    const PATH = [join(folder, 'bin'), dirname(helm as string), process.env.PATH].join(delimiter);
    const blocks = [...PAGE.matchAll(/^```console\n(.*?)^```/gms)].map(([, block = '']) => block);
    const commands = blocks.flatMap(block =>
      block
        .split(/^\$ /m)
        .filter(Boolean)
        .map(text => [text.slice(0, text.indexOf('\n')), text.slice(text.indexOf('\n') + 1)]),
    );
    // No cluster is available.
    const offline = commands.filter(([command = '']) => !/^(kubectl|helm install)/.test(command));
    expect(offline).toHaveLength(3);
    for (const [command = '', documented] of offline) {
      const text = command.replace('helm upgrade', 'helm template');
      const { stdout, stderr } = spawnSync('sh', ['-c', text], {
        cwd: folder,
        encoding: 'utf8',
        env: { ...process.env, PATH },
      });
      const printed = (stdout + stderr).replace(/^level=INFO.*\n/gm, '');
      // Helm reports errors in any order.
      expect(sorted(printed)).toEqual(sorted(documented));
    }
  });

  it('.ci/chart packages rules and dashboards, and names image and repository', () => {
    const folder = newFolder();
    const env = { ...process.env, PATH: [dirname(helm as string), process.env.PATH].join(delimiter) };
    const source = 'https://github.com/example/delivery-watch';
    const args = ['.ci/chart', 'ghcr.io/example/delivery-watch', source, folder];
    expect(spawnSync('bash', args, { encoding: 'utf8', env })).toMatchObject({ status: 0, stdout: '', stderr: '' });
    const { version } = JSON.parse(readFileSync('package.json', 'utf8'));
    expect(readdirSync(folder)).toEqual([`delivery-watch-${version}.tgz`]);
    const chart = join(folder, `delivery-watch-${version}.tgz`);
    expect(parse(run('show', 'chart', chart).stdout)).toMatchObject({
      version,
      appVersion: version,
      sources: [source],
    });
    const image = `ghcr.io/example/delivery-watch:${version}`;
    const packaged = render(REPLICAS, { chart });
    expect(podOf(packaged).spec.containers).toMatchObject([{ image }]);
    const options = ['--set', 'image.repository=ghcr.io/example/delivery-watch'];
    expect(packaged).toEqual(render(REPLICAS, { options }));
    expect(spawnSync('bash', ['.ci/chart'], { encoding: 'utf8' })).toMatchObject({
      status: 2,
      stderr: 'usage: .ci/chart IMAGE SOURCE FOLDER\n',
    });
  });
});
