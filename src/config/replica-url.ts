import { isIPv6 } from 'node:net';
import { ANY_HOST, parseListen } from '../http/options.ts';
import type { Env } from '../kit/secret.ts';
import type { Config } from './schema.ts';
import { readWebConfig } from './web-config.ts';

type ServerOptions = Config['server'];

function configured(setting: ServerOptions['replicaUrl'], env: Env): string | undefined {
  const url = typeof setting === 'string' ? setting : setting && env[setting.env]?.trim();
  return url ? url.replace(/\/+$/, '') : undefined;
}

/** Returns the URL at which standbys and Prometheus reach this process, without a trailing slash. */
export function replicaUrlOf({ replicaUrl, listen, webConfigFile }: ServerOptions, env: Env, hostname: string): string {
  const given = configured(replicaUrl, env);
  if (given !== undefined) return given;
  const { host, port } = parseListen(listen);
  const isTls = webConfigFile !== null && readWebConfig(webConfigFile).config.tls !== undefined;
  const reached = ANY_HOST.includes(host) ? hostname : host;
  return `http${isTls ? 's' : ''}://${isIPv6(reached) ? `[${reached}]` : reached}:${port}`;
}
