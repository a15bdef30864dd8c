import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { httpUrl } from '../kit/http-url.ts';
import { type Env, headerSettings, headerText } from '../kit/secret.ts';

export const logOptions = z.strictObject({
  level: z
    .enum(['debug', 'info', 'warn', 'error', 'silent'], { error: 'must be one of debug, info, warn, error, silent' })
    .default('info')
    .describe('Lowest level that is logged.'),
  format: z
    .enum(['json', 'text'], { error: 'must be json or text' })
    .default('json')
    .describe('Log format on standard error. `json`: one object per line. `text`: easier to read.'),
  deadLetters: z
    .boolean()
    .default(false)
    .describe('Whether the agent logs each new dead letter at level `warn`: see docs/log.md.'),
});

export type LogOptions = z.output<typeof logOptions>;

const headers = headerSettings.describe(
  'Headers of export requests, such as an API key. Each value is a text or `{ env: NAME }`. The headers are sent only to the configured `endpoint`.',
);

export const tracingOptions = z.strictObject({
  enabled: z
    .boolean()
    .default(false)
    .describe('Whether the agent exports a trace of each sampled round (one read by a collector).'),
  endpoint: httpUrl
    .default('http://localhost:4318')
    .describe(
      'URL of the OTLP/HTTP endpoint, without `/v1/traces`. `OTEL_*` environment variables override this section.',
    ),
  headers,
  sampleRatio: z.number().min(0).max(1).default(0.1).describe('Share of rounds that are traced, from 0 to 1.'),
  messages: z
    .boolean()
    .default(false)
    .describe('Whether deliveries of messages with a sampled `traceparent` are exported as spans of that trace.'),
});

export type TracingOptions = z.output<typeof tracingOptions>;

/** Returns the first variable that is set, and its value. OpenTelemetry treats blank variables as unset. */
export function variableIn(env: Env, ...names: string[]) {
  const found = names.map(name => ({ name, value: env[name]?.trim() ?? '' })).find(({ value }) => value !== '');
  return found ?? { name: undefined, value: undefined };
}

/** Returns the exporter's variable for traces, or the one for all signals. */
export const otlpVariable = (env: Env, key: string) =>
  variableIn(env, `OTEL_EXPORTER_OTLP_TRACES_${key}`, `OTEL_EXPORTER_OTLP_${key}`);

/** Returns the URL for traces. `variable`: the environment variable that overrides the configured address, if any. */
export function otlpAddress(endpoint: string, env: Env) {
  const urlBelow = (base: string) => `${base.replace(/(\/v1\/traces)?\/*$/, '')}/v1/traces`;
  const { name, value = endpoint } = otlpVariable(env, 'ENDPOINT');
  const url = name === 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT' ? value : urlBelow(value);
  return { url, variable: url === urlBelow(endpoint) ? undefined : name };
}

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
 * Returns a receiver's URL, headers and TLS settings. Configured headers may contain keys, so they are not sent to an address
 * from the environment.
 */
export function otlpReceiver({ endpoint, headers }: Pick<TracingOptions, 'endpoint' | 'headers'>, env: Env) {
  const { url, variable } = otlpAddress(endpoint, env);
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? '')) {
    throw new Error(`${variable} must be an http or https address, because traces are sent to it`);
  }
  const sent = variable === undefined ? Object.entries(headers) : [];
  const [ca, cert, key] = ['CERTIFICATE', 'CLIENT_CERTIFICATE', 'CLIENT_KEY'].map(name => pemIn(env, name));
  return {
    url,
    headers: Object.fromEntries(sent.map(([name, value]) => [name.toLowerCase(), headerText(value, env)])),
    // Without `rejectUnauthorized`, NODE_TLS_REJECT_UNAUTHORIZED could turn verification off.
    httpAgentOptions: { keepAlive: true, rejectUnauthorized: true, ca, cert, key },
  };
}
