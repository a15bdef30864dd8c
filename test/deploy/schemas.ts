import {
  PodMonitor,
  PrometheusRule,
  ServiceMonitor,
} from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1';
import { Deployment, StatefulSet } from 'kubernetes-models/apps/v1';
import { Ingress, NetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1';
import { PodDisruptionBudget } from 'kubernetes-models/policy/v1';
import { ConfigMap, Pod, Service, ServiceAccount } from 'kubernetes-models/v1';

/**
 * Returns a check of resources of the model's kind. It throws if one violates the schema, and returns false for resources of
 * other kinds.
 */
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
  checker(Ingress),
  checker(NetworkPolicy),
  checker(Pod),
  checker(PodDisruptionBudget),
  checker(PodMonitor),
  checker(PrometheusRule),
  checker(Service),
  checker(ServiceAccount),
  checker(ServiceMonitor),
  checker(StatefulSet),
];

/** Returns the first violation of the Kubernetes or Prometheus Operator schemas, or undefined. */
export function againstSchema(manifest: unknown): string | undefined {
  try {
    const isKnown = CHECKERS.some(check => check(manifest));
    return isKnown ? undefined : `no schema for ${JSON.stringify(manifest).slice(0, 80)}`;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
