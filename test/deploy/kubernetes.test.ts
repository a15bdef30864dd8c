import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { lint } from './lint.ts';
import { manifestFiles, readManifests } from './manifests.ts';
import { againstSchema } from './schemas.ts';

const files = manifestFiles();

/** Returns all resources with a text replaced in one file. */
function changed(file: string, from: string, to: string): unknown[] {
  const text = files[file] ?? '';
  expect(text, file).toContain(from);
  return readManifests({ ...files, [file]: text.replaceAll(from, to) });
}

describe('deploy/kubernetes', () => {
  it.each(Object.keys(files))('%s is valid against the published schemas', file => {
    const manifests = readManifests({ [file]: files[file] ?? '' });
    expect(manifests).not.toEqual([]);
    expect(manifests.map(againstSchema).filter(Boolean)).toEqual([]);
  });

  it('the schemas detect a wrong type, a missing key, an invalid duration and an unknown kind', () => {
    const found = (...change: Parameters<typeof changed>) =>
      changed(...change)
        .map(againstSchema)
        .filter(Boolean);
    expect(found('standalone.yaml', 'containerPort: 10923', 'containerPort: http')).toEqual([
      expect.stringContaining('containerPort must be integer'),
    ]);
    expect(found('sidecar.yaml', '- name: delivery-watch\n', '- unnamed: x\n')).toEqual([
      expect.stringContaining('must have required property name'),
    ]);
    expect(found('service-monitor.yaml', 'interval: 15s', 'interval: soon')).toEqual([
      expect.stringContaining('interval must match pattern'),
    ]);
    expect(found('pod-monitor.yaml', 'kind: PodMonitor', 'kind: PodMonitors')).toEqual([
      expect.stringContaining('no schema for'),
    ]);
  });

  it('all references in the manifests resolve, and the agent accepts every configuration they contain', () => {
    expect(lint(readManifests(files))).toEqual([]);
  });

  const NAME = 'app.kubernetes.io/name: delivery-watch';
  it.each([
    [
      'standalone.yaml',
      `matchLabels: { ${NAME} }`,
      'matchLabels: { a: b }',
      'StatefulSet delivery-watch does not select its own pods',
    ],
    ['standalone.yaml', `selector: { ${NAME} }`, 'selector: { a: b }', 'Service delivery-watch selects no pod'],
    [
      'standalone.yaml',
      'targetPort: http',
      'targetPort: web',
      'Service delivery-watch: StatefulSet delivery-watch has no port web',
    ],
    [
      'standalone.yaml',
      'serviceName: delivery',
      'serviceName: x',
      'StatefulSet delivery-watch: there is no Service x-watch',
    ],
    [
      'standalone.yaml',
      'serviceAccountName: delivery',
      'serviceAccountName: x',
      'StatefulSet delivery-watch: there is no ServiceAccount x-watch',
    ],
    [
      'standalone.yaml',
      'port: probes',
      'port: probe',
      'StatefulSet delivery-watch: a probe uses the missing port probe',
    ],
    [
      'standalone.yaml',
      'metadata: { name: store }',
      'metadata: { name: data }',
      'StatefulSet delivery-watch: there is no volume store',
    ],
    [
      'standalone.yaml',
      'mountPath: /app/data',
      'mountPath: /data',
      'StatefulSet delivery-watch: no volume is mounted at /app/data, the folder of the store',
    ],
    [
      'standalone.yaml',
      'configMap: { name: delivery-watch }',
      'configMap: { name: x }',
      'StatefulSet delivery-watch: no ConfigMap has /etc/delivery-watch/config.yaml',
    ],
    [
      'standalone.yaml',
      'containerPort: 10923',
      'containerPort: 1',
      'StatefulSet delivery-watch: the container has the ports 10922,1, but /etc/delivery-watch/config.yaml has 10922,10923',
    ],
    [
      'standalone.yaml',
      'file: /run/secrets/',
      'file: /run/',
      'StatefulSet delivery-watch: the token of production is not in a Secret',
    ],
    ['standalone.yaml', 'probesListen:', 'probeListen:', 'probeListen: unknown key'],
    [
      'sidecar.yaml',
      'name: delivery-watch-store, mount',
      'name: store, mount',
      'Deployment my-application: no container mounts the volume delivery-watch-store',
    ],
    [
      'service-monitor.yaml',
      `matchLabels: { ${NAME} }`,
      'matchLabels: { a: b }',
      'ServiceMonitor delivery-watch selects no Service',
    ],
    ['service-monitor.yaml', 'port: http', 'port: web', 'ServiceMonitor delivery-watch: its Service has no port web'],
    [
      'service-monitor.yaml',
      'honorLabels: true',
      'honorLabels: false',
      'ServiceMonitor delivery-watch renames labels of the agent',
    ],
    ['pod-monitor.yaml', 'delivery-watch: sidecar', 'delivery-watch: x', 'PodMonitor delivery-watch selects no pod'],
    [
      'pod-monitor.yaml',
      'port: dw-http',
      'port: http',
      'PodMonitor delivery-watch: Deployment my-application has no port http',
    ],
    [
      'network-policy.yaml',
      `matchLabels: { ${NAME} }`,
      'matchLabels: { a: b }',
      'NetworkPolicy delivery-watch selects no pod',
    ],
    [
      'network-policy.yaml',
      'port: http',
      'port: web',
      'NetworkPolicy delivery-watch: StatefulSet delivery-watch has no port web',
    ],
    [
      'replicas.yaml',
      'unhealthyPodEvictionPolicy: AlwaysAllow\n  selector:\n    matchLabels: {',
      'unhealthyPodEvictionPolicy: AlwaysAllow\n  selector:\n    matchLabels: { a: b,',
      'PodDisruptionBudget delivery-watch-replicas selects no pod',
    ],
    [
      'replicas.yaml',
      'maxUnavailable: 1\n',
      'maxUnavailable: 2\n',
      'PodDisruptionBudget delivery-watch-replicas: all pods of Deployment delivery-watch-replicas may be unavailable',
    ],
    [
      'replicas.yaml',
      'kind: postgres\n      url: { env: DATABASE_URL }',
      'kind: memory',
      "Deployment delivery-watch-replicas: 2 replicas can't share a store of kind memory",
    ],
    [
      'replicas.yaml',
      '- name: DATABASE_URL',
      '- name: DATABASE',
      'Deployment delivery-watch-replicas: the database URL is not in a Secret',
    ],
    [
      'replicas.yaml',
      '$(POD_IP):10922\n          ports',
      '$(POD_IP):10923\n          ports',
      "Deployment delivery-watch-replicas: other replicas can't reach it at http://$(POD_IP):10923",
    ],
    [
      'replicas.yaml',
      '- name: POD_IP',
      '- name: LATER_IP',
      "Deployment delivery-watch-replicas: other replicas can't reach it at http://$(POD_IP):10922",
    ],
    [
      'replicas.yaml',
      'fieldPath: status.podIP',
      'fieldPath: status.hostIP',
      "Deployment delivery-watch-replicas: other replicas can't reach it at http://$(POD_IP):10922",
    ],
  ])('the lint of %s reports the change %s → %s as: %s', (file, from, to, fault) => {
    expect(lint(changed(file, from, to))).toContainEqual(expect.stringContaining(fault));
  });

  it('the manifests, the Dockerfile and the chart use the package version', () => {
    const { version } = JSON.parse(readFileSync('package.json', 'utf8'));
    const images = Object.values(files).flatMap(text => [...text.matchAll(/image: \S+\/delivery-watch:(\S+)/g)]);
    expect(images.map(([, tag]) => tag)).toEqual([version, version, version, version]);
    expect(/^ARG VERSION=(.*)$/m.exec(readFileSync('Dockerfile', 'utf8'))?.[1]).toBe(version);
    const chart = parse(readFileSync('deploy/helm/delivery-watch/Chart.yaml', 'utf8'));
    expect(chart).toMatchObject({ version, appVersion: version });
  });

  it('the PrometheusRule contains the default rules', () => {
    const resource = parse(readFileSync('deploy/kubernetes/base/prometheus-rule.yaml', 'utf8'));
    expect(resource.spec.groups).toEqual(parse(readFileSync('dashboards/rules/alerting.yaml', 'utf8')).groups);
    expect(againstSchema(resource)).toBeUndefined();
  });
});
