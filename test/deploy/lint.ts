import { PodMonitor, ServiceMonitor } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1';
import { Deployment, StatefulSet } from 'kubernetes-models/apps/v1';
import { NetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1';
import { PodDisruptionBudget } from 'kubernetes-models/policy/v1';
import {
  ConfigMap,
  type IConfigMap,
  type IContainer,
  type IPodTemplateSpec,
  Service,
  ServiceAccount,
} from 'kubernetes-models/v1';
import { ConfigError, formatError, parseConfig } from '../../src/config/load.ts';
import { parseListen } from '../../src/http/options.ts';

type Labels = Readonly<Record<string, string>>;

/** Whether a selector matches labels. Here, an empty selector matches nothing, although it matches everything in Kubernetes. */
const matches = (selector: Labels | undefined, labels: Labels | undefined) =>
  Object.keys(selector ?? {}).length > 0 &&
  Object.entries(selector ?? {}).every(([name, value]) => labels?.[name] === value);

interface Pod {
  readonly owner: string;
  readonly template: IPodTemplateSpec;
  readonly claims: readonly string[];
  readonly replicas: number;
  /** Service that provides a host name for each pod. */
  readonly serviceName: string | undefined;
}

const containersOf = ({ template: { spec } }: Pod): IContainer[] => [
  ...(spec?.initContainers ?? []),
  ...(spec?.containers ?? []),
];
const portNames = (pod: Pod) => containersOf(pod).flatMap(({ ports }) => (ports ?? []).map(({ name }) => name));

/** Returns errors that schemas cannot detect, such as unresolved references. */
export function lint(manifests: readonly unknown[]): string[] {
  const faults: string[] = [];
  const need = (holds: boolean, fault: string) => void (holds || faults.push(fault));
  const services = manifests.filter(each => Service.is(each));
  const configMaps = manifests.filter(each => ConfigMap.is(each));
  const accounts = manifests.filter(each => ServiceAccount.is(each));
  const sets = manifests.filter(each => StatefulSet.is(each));
  const workloads = [...sets, ...manifests.filter(each => Deployment.is(each))];
  const pods = workloads.map(({ kind, metadata, spec }): Pod => {
    const template = spec?.template ?? {};
    const owner = `${kind} ${metadata?.name}`;
    need(matches(spec?.selector.matchLabels, template.metadata?.labels), `${owner} does not select its own pods`);
    const claims = (spec && 'volumeClaimTemplates' in spec && spec.volumeClaimTemplates) || [];
    return {
      owner,
      template,
      replicas: spec?.replicas ?? 1,
      serviceName: spec && 'serviceName' in spec ? spec.serviceName : undefined,
      claims: claims.map(({ metadata }) => metadata?.name ?? ''),
    };
  });
  const podsOf = (owner: string, selector: Labels | undefined) => {
    const found = pods.filter(({ template }) => matches(selector, template.metadata?.labels));
    need(found.length > 0, `${owner} selects no pod`);
    return found;
  };

  for (const { metadata, spec } of sets) {
    need(
      services.some(service => service.metadata?.name === spec?.serviceName),
      `StatefulSet ${metadata?.name}: there is no Service ${spec?.serviceName}`,
    );
  }
  for (const { metadata, spec } of services) {
    const owner = `Service ${metadata?.name}`;
    for (const pod of podsOf(owner, spec?.selector)) {
      for (const { targetPort } of spec?.ports ?? [])
        need(portNames(pod).includes(String(targetPort)), `${owner}: ${pod.owner} has no port ${targetPort}`);
    }
  }
  for (const { metadata, spec } of manifests.filter(each => ServiceMonitor.is(each))) {
    const owner = `ServiceMonitor ${metadata?.name}`;
    const found = services.filter(service => matches(spec.selector.matchLabels, service.metadata?.labels));
    need(found.length > 0, `${owner} selects no Service`);
    for (const { port, honorLabels } of spec.endpoints ?? []) {
      const ports = found.flatMap(({ spec }) => (spec?.ports ?? []).map(({ name }) => name));
      need(ports.includes(port), `${owner}: its Service has no port ${port}`);
      need(honorLabels === true, `${owner} renames labels of the agent`);
    }
  }
  for (const { metadata, spec } of manifests.filter(each => PodMonitor.is(each))) {
    const owner = `PodMonitor ${metadata?.name}`;
    for (const pod of podsOf(owner, spec.selector.matchLabels)) {
      for (const { port, honorLabels } of spec.podMetricsEndpoints ?? []) {
        need(portNames(pod).includes(port), `${owner}: ${pod.owner} has no port ${port}`);
        need(honorLabels === true, `${owner} renames labels of the agent`);
      }
    }
  }
  for (const { metadata, spec } of manifests.filter(each => NetworkPolicy.is(each))) {
    const owner = `NetworkPolicy ${metadata?.name}`;
    for (const pod of podsOf(owner, spec?.podSelector?.matchLabels)) {
      for (const { port } of (spec?.ingress ?? []).flatMap(({ ports }) => ports ?? []))
        need(portNames(pod).includes(String(port)), `${owner}: ${pod.owner} has no port ${port}`);
    }
  }
  for (const { metadata, spec } of manifests.filter(each => PodDisruptionBudget.is(each))) {
    const owner = `PodDisruptionBudget ${metadata?.name}`;
    for (const pod of podsOf(owner, spec?.selector?.matchLabels))
      need(pod.replicas > Number(spec?.maxUnavailable), `${owner}: all pods of ${pod.owner} may be unavailable`);
  }
  for (const pod of pods) {
    const { owner, template, claims } = pod;
    const account = template.spec?.serviceAccountName;
    need(
      account === undefined || accounts.some(({ metadata }) => metadata?.name === account),
      `${owner}: there is no ServiceAccount ${account}`,
    );
    const volumes = template.spec?.volumes ?? [];
    const mounts = containersOf(pod).flatMap(({ volumeMounts }) => volumeMounts ?? []);
    const named = [...volumes.map(({ name }) => name), ...claims];
    for (const { name } of mounts) need(named.includes(name), `${owner}: there is no volume ${name}`);
    for (const name of named)
      need(
        mounts.some(mount => mount.name === name),
        `${owner}: no container mounts the volume ${name}`,
      );
    for (const container of containersOf(pod)) {
      for (const probe of [container.startupProbe, container.livenessProbe, container.readinessProbe]) {
        const port = probe?.httpGet?.port;
        const own = (container.ports ?? []).map(({ name }) => name);
        need(port === undefined || own.includes(String(port)), `${owner}: a probe uses the missing port ${port}`);
      }
      if (container.name === 'delivery-watch') faults.push(...lintAgent(pod, container, configMaps));
    }
  }
  return faults;
}

/** Returns the mismatches between the agent's container and its configuration. */
function lintAgent(
  { owner, template, replicas, serviceName }: Pod,
  container: IContainer,
  configMaps: readonly IConfigMap[],
): string[] {
  const faults: string[] = [];
  const need = (holds: boolean, fault: string) => void (holds || faults.push(`${owner}: ${fault}`));
  const file = container.args?.at(-1) ?? '';
  const mounts = container.volumeMounts ?? [];
  const env = container.env ?? [];
  const variable = (setting: unknown) =>
    env.find(({ name }) => typeof setting === 'object' && setting && 'env' in setting && name === setting.env);
  if (!container.args?.includes('--config')) {
    const isSecret = (name: string) => variable({ env: name })?.valueFrom?.secretKeyRef !== undefined;
    need(isSecret('DELIVERY_URL') && isSecret('DELIVERY_TOKEN'), 'neither a file nor a Secret names an account');
    need(
      mounts.some(({ mountPath }) => mountPath === '/app/data'),
      'no volume is mounted at /app/data, the folder of the store',
    );
    return faults;
  }
  const volumeAt = (path: string) => {
    const mount = mounts.find(({ mountPath }) => path.startsWith(`${mountPath}/`));
    return template.spec?.volumes?.find(({ name }) => name === mount?.name);
  };
  const isMountedSecret = (setting: unknown) => {
    const path = typeof setting === 'object' && setting && 'file' in setting ? String(setting.file) : '';
    return volumeAt(path)?.secret !== undefined;
  };
  const name = volumeAt(file)?.configMap?.name;
  const text = configMaps.find(({ metadata }) => metadata?.name === name)?.data?.[file.replace(/.*\//, '')];
  if (text === undefined) return [`${owner}: no ConfigMap has ${file}`];
  try {
    const { config } = parseConfig(text, file);
    const { listen, probesListen, replicaUrl } = config.server;
    const ports = (container.ports ?? []).map(({ containerPort }) => containerPort);
    const listened = [listen, probesListen ?? ''].map(address => parseListen(address).port);
    need(String(ports) === String(listened), `the container has the ports ${ports}, but ${file} has ${listened}`);
    for (const { name, token } of config.accounts)
      need(isMountedSecret(token), `the token of ${name} is not in a Secret`);
    const { store } = config;
    need(store.kind === 'postgres' || replicas === 1, `${replicas} replicas can't share a store of kind ${store.kind}`);
    if (store.kind === 'postgres') {
      need(
        variable(store.url)?.valueFrom?.secretKeyRef !== undefined || isMountedSecret(store.url),
        'the database URL is not in a Secret',
      );
      const url = variable(replicaUrl);
      // Kubernetes expands only variables that are defined earlier in the list.
      const earlier = env.slice(0, url && env.indexOf(url));
      const host = url?.value?.replace(/\$\((\w+)\)/g, (_, used) => {
        const field = earlier.find(({ name }) => name === used)?.valueFrom?.fieldRef?.fieldPath;
        return field ? `<${field}>` : '?';
      });
      const service = `<metadata.name>.${serviceName}.<metadata.namespace>.svc`;
      const reachable = serviceName === undefined ? 'http://<status.podIP>' : `https://${service}`;
      need(host === `${reachable}:${listened[0]}`, `other replicas can't reach it at ${url?.value}`);
    }
    if (store.kind === 'sqlite') {
      const folder = store.path.replace(/^\.\/data\/.*/, '/app/data');
      need(
        mounts.some(({ mountPath }) => mountPath === folder),
        `no volume is mounted at ${folder}, the folder of the store`,
      );
    }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    faults.push(...error.errors.map(formatError));
  }
  return faults;
}
