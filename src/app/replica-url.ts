import { isIPv6 } from 'node:net';
import type { Config } from '../config/schema.ts';
import { readWebConfig } from '../config/web-config.ts';
import { parseListen } from '../http/options.ts';
import type { Env } from '../kit/secret.ts';

const ANY_HOST: readonly string[] = ['0.0.0.0', '::'];

/** Where other replicas and Prometheus reach this one, without a slash at its end. `hostname`: of the machine. */
export function replicaUrlOf(
  { replicaUrl, listen, webConfigFile }: Config['server'],
  env: Env,
  hostname: string,
): string {
  const given = typeof replicaUrl === 'string' ? replicaUrl : replicaUrl && env[replicaUrl.env]?.trim();
  if (given) return given.replace(/\/+$/, '');
  const { host, port } = parseListen(listen);
  const isTls = webConfigFile !== null && readWebConfig(webConfigFile).config.tls !== undefined;
  const reached = ANY_HOST.includes(host) ? hostname : host;
  return `http${isTls ? 's' : ''}://${isIPv6(reached) ? `[${reached}]` : reached}:${port}`;
}
