type Env = Readonly<Record<string, string | undefined>>;

const PROTOCOLS = ['http/protobuf', 'http/json'] as const;
export type TracesProtocol = (typeof PROTOCOLS)[number];

/** Whether the environment leaves the agent's own spans to OTLP. */
export const isOtlp = ({ OTEL_TRACES_EXPORTER }: Env) => ['', 'otlp'].includes(OTEL_TRACES_EXPORTER ?? '');

/** How spans are sent. Throws an Error where the environment asks for a protocol that is not there. */
export function tracesProtocol({
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL,
  OTEL_EXPORTER_OTLP_PROTOCOL,
}: Env): TracesProtocol {
  const asked = OTEL_EXPORTER_OTLP_TRACES_PROTOCOL || OTEL_EXPORTER_OTLP_PROTOCOL || 'http/protobuf';
  const protocol = PROTOCOLS.find(each => each === asked);
  if (protocol !== undefined) return protocol;
  throw new Error(`OTEL_EXPORTER_OTLP_PROTOCOL is ${asked}; it must be one of ${PROTOCOLS.join(', ')}`);
}
