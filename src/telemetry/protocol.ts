import { readFileSync } from 'node:fs';
import { type Env, Secret } from '../kit/secret.ts';
import { bareAddress } from '../kit/text.ts';
import {
  doubledPath,
  type HeaderSetting,
  otlpAddress,
  otlpVariable,
  type TracingOptions,
  variableIn,
} from './options.ts';

const PROTOCOLS = ['http/protobuf', 'http/json'] as const;
export type TracesProtocol = (typeof PROTOCOLS)[number];

/** Whether the agent's own spans are exported by OTLP: true unless the environment selects another exporter. */
export const isOtlp = (env: Env) => (variableIn(env, 'OTEL_TRACES_EXPORTER').value ?? 'otlp') === 'otlp';

export const isDisabled = (env: Env) => variableIn(env, 'OTEL_SDK_DISABLED').value?.toLowerCase() === 'true';

/** Throws an Error if the environment requests an unsupported protocol. */
export function tracesProtocol(env: Env): TracesProtocol {
  const { value: requested = 'http/protobuf' } = otlpVariable(env, 'PROTOCOL');
  const protocol = PROTOCOLS.find(each => each === requested);
  if (protocol !== undefined) return protocol;
  throw new Error(`OTEL_EXPORTER_OTLP_PROTOCOL is ${requested}; it must be one of ${PROTOCOLS.join(', ')}`);
}

/** Parses `a=1,b=2`. Unlike the SDK, keeps all pairs if a value has an unescaped `%` or `=`. */
export function pairsIn(text = ''): Record<string, string> {
  const pairs = new URLSearchParams(text.replace(/[&+]/g, encodeURIComponent).replaceAll(',', '&'));
  return Object.fromEntries([...pairs].map(pair => pair.map(part => part.trim())));
}

/** Reads the file that a variable names. Throws an Error if that fails, because the exporter would ignore it. */
function pemIn(env: Env, key: string): Buffer | undefined {
  const { name, value } = otlpVariable(env, key);
  try {
    return value === undefined ? undefined : readFileSync(value);
  } catch (error) {
    throw new Error(`${name} is ${value}, which can't be read: ${(error as NodeJS.ErrnoException).code}`);
  }
}

/**
 * Returns a receiver's URL, headers and TLS settings. Configured headers may be keys, so they are not sent to an address from
 * the environment.
 */
export function otlpReceiver({ endpoint, headers }: Pick<TracingOptions, 'endpoint' | 'headers'>, env: Env) {
  const { url, variable } = otlpAddress(endpoint, env);
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? '')) {
    throw new Error(`${variable} must be an http or https address, because traces are sent to it`);
  }
  const doubled = url.endsWith('/v1/traces') && doubledPath(url.slice(0, -'/v1/traces'.length));
  if (doubled) throw new Error(`${variable} ${doubled}`);
  const sent = variable === undefined ? Object.entries(headers) : [];
  const textOf = (value: HeaderSetting) => (value instanceof Secret ? value.reveal() : (env[value.env] ?? ''));
  const files = {
    ca: pemIn(env, 'CERTIFICATE'),
    cert: pemIn(env, 'CLIENT_CERTIFICATE'),
    key: pemIn(env, 'CLIENT_KEY'),
  };
  return {
    url,
    headers: Object.fromEntries(sent.map(([name, value]) => [name.toLowerCase(), textOf(value)])),
    // Without `rejectUnauthorized`, NODE_TLS_REJECT_UNAUTHORIZED could turn verification off.
    httpAgentOptions: { keepAlive: true, rejectUnauthorized: true, ...files },
  };
}

/** Returns which variables of the environment override which settings, without secrets. */
export function tracingOverrides(options: TracingOptions, env: Env): string[] {
  if (!options.enabled) return [];
  if (isDisabled(env)) return ['OTEL_SDK_DISABLED overrides tracing.enabled: no traces are exported'];
  const { url, variable } = otlpAddress(options.endpoint, env);
  const others = [
    ...(isOtlp(env) ? [] : [['OTEL_TRACES_EXPORTER', 'tracing.endpoint for traces of the agent']]),
    ['OTEL_TRACES_SAMPLER', 'tracing.sampleRatio'],
    ...(options.propagate ? [['OTEL_PROPAGATORS', 'tracing.propagate']] : []),
  ];
  return [
    ...(variable ? [`${variable} overrides tracing.endpoint: traces are sent to ${bareAddress(url)}`] : []),
    ...others.flatMap(([name = '', key]) => {
      const { value } = variableIn(env, name);
      return value === undefined ? [] : [`${name} is ${value}, which overrides ${key}`];
    }),
  ];
}
