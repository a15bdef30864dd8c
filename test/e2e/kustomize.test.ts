import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { lint } from '../deploy/lint.ts';
import { readManifests } from '../deploy/manifests.ts';
import { againstSchema } from '../deploy/schemas.ts';
import { mainFile } from '../support/bundle.ts';
import { newFolder } from '../support/folder.ts';
import { findNewer } from '../support/newer-packages.ts';

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly labels?: object };
  readonly data?: Readonly<Record<string, string>>;
}

const CONFIG = `
server: { public: true }
accounts: [{ name: production, baseUrl: 'https://delivery.example.com', token: { file: token } }]
alerts:
  enabled: true
  rules: [{ name: TooManyEmails, when: { above: { metric: delivery_dlq_messages, value: 9 } } }]
  notifiers: [{ name: hook, webhook: { url: 'http://127.0.0.1:9000/' } }]
`;

const kubectl = findNewer('kubectl');

/** Builds a folder as `kubectl apply -k` does. */
function build(folder: string): Manifest[] {
  const { status, stdout, stderr } = spawnSync(kubectl as string, ['kustomize', folder], { encoding: 'utf8' });
  expect([status, stderr]).toEqual([0, '']);
  return readManifests({ all: stdout }) as Manifest[];
}

/** Returns `KIND NAME` of each resource, sorted, without the dashboards. */
const names = (manifests: readonly Manifest[]) =>
  manifests
    .map(({ kind, metadata }) => `${kind} ${metadata.name}`)
    .filter(name => !name.includes('dashboard'))
    .sort();

describe.skipIf(kubectl === undefined)('deploy/kubernetes with Kustomize', () => {
  const SERVICE = ['NetworkPolicy delivery-watch', 'PrometheusRule delivery-watch', 'ServiceMonitor delivery-watch'];
  it.each([
    [
      'standalone',
      ['ConfigMap', 'Service', 'ServiceAccount', 'StatefulSet'].map(kind => `${kind} delivery-watch`).concat(SERVICE),
    ],
    [
      'replicas',
      ['ConfigMap', 'Deployment', 'PodDisruptionBudget', 'Service', 'ServiceAccount']
        .map(kind => `${kind} delivery-watch-replicas`)
        .concat(SERVICE, 'NetworkPolicy delivery-watch-database'),
    ],
    [
      'sidecar',
      [
        'ConfigMap delivery-watch-sidecar',
        'Deployment my-application',
        'PodMonitor delivery-watch',
        'PrometheusRule delivery-watch',
      ],
    ],
  ])('the overlay %s builds valid resources with resolvable references', (overlay, expected) => {
    const manifests = build(`deploy/kubernetes/overlays/${overlay}`);
    expect(names(manifests)).toEqual(expected.toSorted());
    expect(manifests.map(againstSchema).filter(Boolean)).toEqual([]);
    expect(lint(manifests)).toEqual([]);
  });

  it.each(['standalone', 'replicas', 'sidecar'])(
    'the overlay %s contains all dashboards as ConfigMaps that Grafana loads',
    overlay => {
      const dashboards = build(`deploy/kubernetes/overlays/${overlay}`).filter(({ metadata }) =>
        metadata.name.includes('dashboard'),
      );
      expect(dashboards.map(({ data }) => Object.keys(data ?? {})).sort()).toEqual([
        ['delivery-watch-agent.json'],
        ['delivery-watch-dlq.json'],
        ['delivery-watch-overview.json'],
      ]);
      for (const { metadata, data } of dashboards) {
        expect(metadata.labels).toMatchObject({ grafana_dashboard: '1' });
        for (const [file, text] of Object.entries(data ?? {}))
          expect(text).toBe(readFileSync(`dashboards/${file.replace('delivery-watch-', '')}`, 'utf8'));
        // `kubectl apply` copies a resource into an annotation, which is limited to 256 KiB.
        expect(Buffer.byteLength(JSON.stringify(data))).toBeLessThan(256 * 1024);
      }
    },
  );

  it('the overlay in docs/kubernetes.md changes image, namespace and configuration', () => {
    const [, example = ''] = /^```yaml\n(namespace: .*?)^```/ms.exec(readFileSync('docs/kubernetes.md', 'utf8')) ?? [];
    const folder = newFolder();
    symlinkSync(resolve('.'), join(folder, 'delivery-watch'));
    writeFileSync(join(folder, 'kustomization.yaml'), example);
    const manifests = build(folder);
    expect(new Set(manifests.map(({ metadata }) => metadata.namespace))).toEqual(new Set(['monitoring']));
    expect(JSON.stringify(manifests)).toContain('"image":"ghcr.io/example/delivery-watch:1.0.0"');
    const config = manifests.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === 'delivery-watch');
    expect(parse(config?.data?.['config.yaml'] ?? '').server).toEqual({
      listen: '0.0.0.0:10922',
      public: true,
      probesListen: '0.0.0.0:10923',
    });
    expect(lint(manifests)).toEqual([]);
  });

  it('the patch for arbitrary user ids in docs/kubernetes.md removes the ids and keeps the other restrictions', () => {
    const page = readFileSync('docs/kubernetes.md', 'utf8');
    const [, example = ''] = /^```yaml\n(namespace: .*?)^```/ms.exec(page) ?? [];
    const [, patch = ''] = /^## Arbitrary user ids$.*?^```yaml\n(.*?)^```/ms.exec(page) ?? [];
    const folder = newFolder();
    symlinkSync(resolve('.'), join(folder, 'delivery-watch'));
    writeFileSync(join(folder, 'kustomization.yaml'), example + patch);
    const { spec } = build(folder).find(({ kind }) => kind === 'StatefulSet') as never as {
      spec: { template: { spec: { securityContext: object } } };
    };
    expect(spec.template.spec.securityContext).toEqual({
      runAsNonRoot: true,
      fsGroupChangePolicy: 'OnRootMismatch',
      seccompProfile: { type: 'RuntimeDefault' },
    });
  });

  it('the patches for several agents in docs/kubernetes.md remove rules and dashboards', () => {
    const page = readFileSync('docs/kubernetes.md', 'utf8');
    const [, patches = ''] = /^## Several agents$.*?^```yaml\n(.*?)^```/ms.exec(page) ?? [];
    const folder = newFolder();
    symlinkSync(resolve('.'), join(folder, 'delivery-watch'));
    const resources = 'resources: [delivery-watch/deploy/kubernetes/overlays/sidecar]\n';
    writeFileSync(join(folder, 'kustomization.yaml'), `${resources}patches:\n${patches}`);
    expect(build(folder).map(({ kind, metadata }) => `${kind} ${metadata.name}`)).toEqual([
      'ConfigMap delivery-watch-sidecar',
      'Deployment my-application',
      'PodMonitor delivery-watch',
    ]);
  });

  it('the network policies admit destinations of both address families', () => {
    const policies = build('deploy/kubernetes/overlays/standalone').filter(({ kind }) => kind === 'NetworkPolicy');
    const blocks = [...JSON.stringify(policies).matchAll(/"cidr":"([^"]+)"/g)].map(([, cidr]) => cidr);
    expect(blocks).toEqual(['0.0.0.0/0', '::/0']);
  });

  it('the component replicas-tls sets a host name for each replica and mounts the web configuration', () => {
    const folder = newFolder();
    symlinkSync(resolve('.'), join(folder, 'delivery-watch'));
    const overlay = {
      namespace: 'monitoring',
      resources: ['delivery-watch/deploy/kubernetes/overlays/replicas'],
      components: ['delivery-watch/deploy/kubernetes/replicas-tls'],
      replicas: [{ name: 'delivery-watch-replicas', count: 2 }],
    };
    writeFileSync(join(folder, 'kustomization.yaml'), JSON.stringify(overlay));
    const manifests = build(folder);
    expect(names(manifests)).toContain('StatefulSet delivery-watch-replicas');
    expect(names(manifests)).not.toContain('Deployment delivery-watch-replicas');
    expect(manifests.map(againstSchema).filter(Boolean)).toEqual([]);
    expect(lint(manifests)).toEqual([]);
    const text = JSON.stringify(manifests);
    expect(text).toContain('{"name":"NODE_EXTRA_CA_CERTS","value":"/run/secrets/delivery-watch-web/ca.crt"}');
    expect(text).toContain('"serverName":"delivery-watch-replicas-0.delivery-watch-replicas.monitoring.svc"');
    expect(text).toContain('"clusterIP":"None"');
  });

  it('the patch in docs/kubernetes.md replaces the rules of the overlay with the rules for your alerts', () => {
    const page = readFileSync('docs/kubernetes.md', 'utf8');
    const [, example = ''] = /^```yaml\n(namespace: .*?)^```/ms.exec(page) ?? [];
    const [, script = '', patch = ''] =
      /^```sh\n(delivery-watch rules .*?)^```.*?^```yaml\n(.*?)^```/ms.exec(page) ?? [];
    const folder = newFolder();
    symlinkSync(resolve('.'), join(folder, 'delivery-watch'));
    writeFileSync(join(folder, 'kustomization.yaml'), example + patch);
    writeFileSync(join(folder, 'config.yaml'), CONFIG);
    const bin = join(folder, 'bin');
    mkdirSync(bin);
    writeFileSync(
      join(bin, 'delivery-watch'),
      `#!/bin/sh\nexec '${process.execPath}' '${resolve(mainFile())}' "$@"\n`,
      {
        mode: 0o755,
      },
    );
    const env = { ...process.env, PATH: [bin, process.env.PATH].join(delimiter) };
    const { status, stderr } = spawnSync('sh', ['-ec', script], { cwd: folder, encoding: 'utf8', env });
    expect([status, stderr]).toEqual([0, '']);
    const rules = build(folder).filter(({ kind }) => kind === 'PrometheusRule');
    expect(rules.map(({ metadata }) => metadata.name)).toEqual(['delivery-watch']);
    expect(rules.map(againstSchema).filter(Boolean)).toEqual([]);
    const alerts = (text: string) => [...text.matchAll(/"alert":"(\w+)"/g)].map(([, name]) => name).sort();
    const shipped = readManifests({ all: readFileSync('deploy/kubernetes/base/prometheus-rule.yaml', 'utf8') });
    expect(alerts(JSON.stringify(rules))).toEqual([...alerts(JSON.stringify(shipped)), 'TooManyEmails'].sort());
  });
});
