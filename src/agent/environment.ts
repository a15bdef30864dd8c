import type { Config } from '../config/schema.ts';
import type { Env } from '../kit/secret.ts';
import { hasLifecycles, isTraced } from '../telemetry/message-traces.ts';
import { isOtlp, otlpReceiver, tracesProtocol, tracingOverrides } from '../telemetry/protocol.ts';

/** Returns errors for unsupported values of OpenTelemetry's variables, without secrets. */
export function environmentErrors(config: Config, env: Env): string[] {
  const isExported = hasLifecycles(config, env) || (isTraced(config, env) && isOtlp(env));
  if (!isExported) return [];
  try {
    tracesProtocol(env);
    otlpReceiver(config.tracing, env);
    return [];
  } catch (error) {
    return [error instanceof Error ? error.message : String(error)];
  }
}

/** Options of Node.js that weaken TLS or the HTTP parser. Node.js also accepts underscores. */
const WEAKENING = /--(?:tls[-_](?:min[-_]v1\.[01]|max[-_]v1\.2|cipher[-_]list|keylog)|insecure[-_]http[-_]parser)/g;

/** Variables of libpq that describe a connection. */
const OF_LIBPQ = /^PG(?:HOST|PORT|USER|PASSWORD|PASSFILE|DATABASE|OPTIONS|SERVICE|SSL[A-Z]+)$/;

/** Returns warnings about variables that concern all connections or the store, without secrets. */
export function connectionWarnings({ store }: Pick<Config, 'store'>, env: Env): string[] {
  const options = env.NODE_OPTIONS?.match(WEAKENING) ?? [];
  const libpq = store.kind === 'postgres' ? Object.keys(env).filter(name => OF_LIBPQ.test(name) && env[name]) : [];
  const isUnverified = env.NODE_TLS_REJECT_UNAUTHORIZED?.trim() === '0';
  const remedy = 'remove it, and name a private CA in upstream.caFile or NODE_EXTRA_CA_CERTS';
  return [
    ...(isUnverified
      ? [`NODE_TLS_REJECT_UNAUTHORIZED=0 has no effect: certificates are always verified; ${remedy}`]
      : []),
    ...options.map(option => `NODE_OPTIONS contains ${option}, which may weaken connections; remove it`),
    ...libpq.map(name => `${name} has no effect on the store: only store.url counts`),
  ];
}

/** Returns warnings about variables that have no effect, weaken connections or override settings, without secrets. */
export const environmentWarnings = (config: Config, env: Env): string[] => [
  ...connectionWarnings(config, env),
  ...tracingOverrides(config.tracing, env),
];
