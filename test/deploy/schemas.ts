import {
  PodMonitor,
  PrometheusRule,
  ServiceMonitor,
} from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1';
import { Deployment, StatefulSet } from 'kubernetes-models/apps/v1';
import { NetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1';
import { PodDisruptionBudget } from 'kubernetes-models/policy/v1';
import { ConfigMap, Service, ServiceAccount } from 'kubernetes-models/v1';

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
  checker(PodDisruptionBudget),
  checker(PodMonitor),
  checker(PrometheusRule),
  checker(Service),
  checker(ServiceAccount),
  checker(ServiceMonitor),
  checker(StatefulSet),
];

/** What the schemas of Kubernetes and of the Prometheus Operator say against a resource; undefined: nothing. */
export function againstSchema(manifest: unknown): string | undefined {
  try {
    const isKnown = CHECKERS.some(check => check(manifest));
    return isKnown ? undefined : `no schema is known of ${JSON.stringify(manifest).slice(0, 80)}`;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
