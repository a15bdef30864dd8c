import type { Env } from '../kit/secret.ts';

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
