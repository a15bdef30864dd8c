import { type Env, Secret } from '../kit/secret.ts';
import { type HeaderSetting, otlpAddress, type TracingOptions } from './options.ts';

const PROTOCOLS = ['http/protobuf', 'http/json'] as const;
export type TracesProtocol = (typeof PROTOCOLS)[number];

/** Whether the agent's own spans are exported by OTLP: true unless the environment selects another exporter. */
export const isOtlp = ({ OTEL_TRACES_EXPORTER }: Env) => ['', 'otlp'].includes(OTEL_TRACES_EXPORTER ?? '');

/** Throws an Error if the environment requests an unsupported protocol. */
export function tracesProtocol(env: Env): TracesProtocol {
  const requested = env.OTEL_EXPORTER_OTLP_TRACES_PROTOCOL || env.OTEL_EXPORTER_OTLP_PROTOCOL || 'http/protobuf';
  const protocol = PROTOCOLS.find(each => each === requested);
  if (protocol !== undefined) return protocol;
  throw new Error(`OTEL_EXPORTER_OTLP_PROTOCOL is ${requested}; it must be one of ${PROTOCOLS.join(', ')}`);
}

/**
 * Returns a receiver's URL and headers. Configured headers may be keys, so they are not sent to an address from the
 * environment.
 */
export function otlpReceiver({ endpoint, headers }: Pick<TracingOptions, 'endpoint' | 'headers'>, env: Env) {
  const { url, variable } = otlpAddress(endpoint, env);
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? '')) {
    throw new Error(`${variable} must be an http or https address, because traces are sent to it`);
  }
  const sent = variable === undefined ? Object.entries(headers) : [];
  const textOf = (value: HeaderSetting) => (value instanceof Secret ? value.reveal() : (env[value.env] ?? ''));
  return { url, headers: Object.fromEntries(sent.map(([name, value]) => [name.toLowerCase(), textOf(value)])) };
}
