import { globSync, readFileSync } from 'node:fs';
import {
  PodMonitor,
  PrometheusRule,
  ServiceMonitor,
} from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1';
import { Deployment, StatefulSet } from 'kubernetes-models/apps/v1';
import { NetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1';
import { ConfigMap, Service, ServiceAccount } from 'kubernetes-models/v1';
import { parseAllDocuments } from 'yaml';

/** Text of the files in deploy/kubernetes, by name. */
export const manifestFiles = (): Readonly<Record<string, string>> =>
  Object.fromEntries(
    globSync('*.yaml', { cwd: 'deploy/kubernetes' })
      .sort()
      .map(name => [name, readFileSync(`deploy/kubernetes/${name}`, 'utf8')]),
  );

/** Throws where a resource of this kind is against its schema; gives false for one of another kind. */
function checker<T>(Model: { is(value: unknown): value is T; new (data: T): { validate(): void } }) {
  return (manifest: unknown): boolean => {
    if (!Model.is(manifest)) return false;
    new Model(manifest).validate();
    return true;
  };
}

const CHECKERS = [
  checker(ConfigMap),
  checker(Deployment),
  checker(NetworkPolicy),
  checker(PodMonitor),
  checker(PrometheusRule),
  checker(Service),
  checker(ServiceAccount),
  checker(ServiceMonitor),
  checker(StatefulSet),
];

/** Every resource in these files, as it stands there. Throws at text that is no YAML. */
export function readManifests(files: Readonly<Record<string, string>>): unknown[] {
  return Object.values(files).flatMap(text =>
    parseAllDocuments(text).map(document => {
      if (document.errors[0]) throw document.errors[0];
      return document.toJS();
    }),
  );
}

/** What the schemas of Kubernetes and of the Prometheus Operator say against a resource; undefined: nothing. */
export function againstSchema(manifest: unknown): string | undefined {
  try {
    const isKnown = CHECKERS.some(check => check(manifest));
    return isKnown ? undefined : `no schema is known of ${JSON.stringify(manifest).slice(0, 80)}`;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
