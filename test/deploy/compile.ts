import { spawnSync } from 'node:child_process';
import { symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { newFolder } from '../support/folder.ts';

/** Modules that export the interface of each kind, which declares the valid keys. */
const TYPES: Readonly<Record<string, string>> = {
  ConfigMap: 'kubernetes-models/v1',
  Deployment: 'kubernetes-models/apps/v1',
  Ingress: 'kubernetes-models/networking.k8s.io/v1',
  NetworkPolicy: 'kubernetes-models/networking.k8s.io/v1',
  Pod: 'kubernetes-models/v1',
  PodDisruptionBudget: 'kubernetes-models/policy/v1',
  PodMonitor: '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1',
  PrometheusRule: '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1',
  Service: 'kubernetes-models/v1',
  ServiceAccount: 'kubernetes-models/v1',
  ServiceMonitor: '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1',
  StatefulSet: 'kubernetes-models/apps/v1',
};

/** Compiles the resources as literals of their types and returns the compiler's output. */
export function compile(manifests: readonly unknown[]): string {
  const folder = newFolder();
  symlinkSync(resolve('node_modules'), join(folder, 'node_modules'));
  const literals = manifests.map((manifest, number) => {
    const json = JSON.stringify(manifest);
    const [, kind = ''] = /"kind":"(\w+)"/.exec(json) ?? [];
    return `import type { I${kind} as I${number} } from '${TYPES[kind]}';\nexport const m${number}: I${number} = ${json};\n`;
  });
  writeFileSync(join(folder, 'manifests.mts'), literals.join(''));
  const options = ['--noEmit', '--strict', '--skipLibCheck', '--module', 'nodenext', '--types', ''];
  const { stdout, stderr } = spawnSync(resolve('node_modules/.bin/tsc'), [...options, 'manifests.mts'], {
    cwd: folder,
    encoding: 'utf8',
  });
  return stdout + stderr;
}
