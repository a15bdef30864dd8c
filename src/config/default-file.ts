import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Env } from '../kit/secret.ts';
import { ConfigError } from './errors.ts';

/** Name of the configuration that consists of environment variables. No file has this name by accident. */
export const ENVIRONMENT = '<environment>';

const PLACES = ['/etc/delivery-watch/config.yaml', './config.yaml'] as const;

/** Variables with the address and the token of the only account. The official clients read the `QSTASH_` variables. */
const VARIABLES = { baseUrl: ['DELIVERY_URL', 'QSTASH_URL'], token: ['DELIVERY_TOKEN', 'QSTASH_TOKEN'] } as const;

/** Order in which commands look for their configuration, for help texts. */
export const SEARCHED = `$DELIVERY_WATCH_CONFIG, ${PLACES.join(', ')}, or DELIVERY_URL and DELIVERY_TOKEN`;

const isSet = (env: Env, name: string) => (env[name] ?? '').trim() !== '';

/** Returns the configuration of a command without `--config`, or undefined. */
export function defaultFile(env: Env, exists: (file: string) => boolean = existsSync): string | undefined {
  if (isSet(env, 'DELIVERY_WATCH_CONFIG')) return env.DELIVERY_WATCH_CONFIG;
  const isInEnvironment = Object.values(VARIABLES).some(names => names.some(name => isSet(env, name)));
  return PLACES.find(exists) ?? (isInEnvironment ? ENVIRONMENT : undefined);
}

/** Returns a configuration with one account from environment variables, as YAML. Throws ConfigError if a variable is missing. */
export function environmentText(env: Env): string {
  const folder = isSet(env, 'DELIVERY_WATCH_DATA') ? `${env.DELIVERY_WATCH_DATA}` : './data';
  const [url, token] = [VARIABLES.baseUrl, VARIABLES.token].map(names => names.find(name => isSet(env, name)));
  const missing = url === undefined ? VARIABLES.baseUrl : token === undefined ? VARIABLES.token : undefined;
  if (url === undefined || token === undefined) {
    const message = `the environment variable ${missing?.join(' or ')} is not set`;
    throw new ConfigError([{ file: ENVIRONMENT, line: 1, column: 1, path: '', message }]);
  }
  const text = (value: string) => JSON.stringify(value);
  return `accounts:
  - name: default
    baseUrl: ${text(`${env[url]}`.trim())}
    token: { env: ${token} }
store: { path: ${text(join(folder, 'delivery-watch.db'))} }
autoCancel: { stopFile: ${text(join(folder, 'STOP'))} }
`;
}
