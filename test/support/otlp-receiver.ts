import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';
import generated from 'otlp-decoder/build/src/generated/root.js';

/** A received span. Times are in milliseconds since the Unix epoch. */
export interface ReceivedSpan {
  readonly resource: Readonly<Record<string, unknown>>;
  readonly resourceSchema: string;
  readonly scope: string;
  readonly scopeSchema: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly name: string;
  readonly kind: string;
  readonly start: number;
  readonly end: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly events: readonly { readonly name: string; readonly time: number }[];
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly isError: boolean;
}

interface KeyValue {
  readonly key: string;
  readonly value?: Readonly<Record<string, unknown>>;
}

/** A request in OpenTelemetry's JSON mapping, except that ids are in Base64. */
interface Decoded {
  readonly resourceSpans?: readonly {
    readonly resource?: { readonly attributes?: readonly KeyValue[] };
    readonly schemaUrl?: string;
    readonly scopeSpans?: readonly {
      readonly scope?: { readonly name?: string };
      readonly schemaUrl?: string;
      readonly spans?: readonly {
        readonly traceId: string;
        readonly spanId: string;
        readonly parentSpanId?: string;
        readonly name: string;
        readonly kind: string;
        readonly startTimeUnixNano: string;
        readonly endTimeUnixNano: string;
        readonly attributes?: readonly KeyValue[];
        readonly events?: readonly { readonly name: string; readonly timeUnixNano: string }[];
        readonly links?: readonly { readonly traceId: string; readonly spanId: string }[];
        readonly status?: { readonly code?: string | number };
      }[];
    }[];
  }[];
}

const { ExportTraceServiceRequest } = generated.opentelemetry.proto.collector.trace.v1;

const attributesOf = (pairs: readonly KeyValue[] = []) =>
  Object.fromEntries(
    pairs.map(({ key, value = {} }) => {
      const [only] = Object.values(value);
      return [key, value.intValue === undefined ? only : Number(only)];
    }),
  );

const ms = (nanos: string) => Number(BigInt(nanos) / 1000n) / 1000;

/** Decodes the spans of a request. Protobuf's JSON mapping encodes ids in Base64; OTLP's mapping uses hexadecimal digits. */
function decode(body: Buffer, contentType: string): ReceivedSpan[] {
  const isJson = contentType.startsWith('application/json');
  const message = isJson
    ? ExportTraceServiceRequest.fromObject(JSON.parse(body.toString()))
    : ExportTraceServiceRequest.decode(body);
  if (isJson && ExportTraceServiceRequest.verify(message) !== null) throw new Error('no OTLP request');
  const decoded = ExportTraceServiceRequest.toObject(message, {
    longs: String,
    enums: String,
    bytes: String,
  }) as Decoded;
  // For JSON, fromObject decoded hexadecimal digits as Base64; toObject restores them unchanged.
  const id = (text = '') => (isJson ? text : Buffer.from(text, 'base64').toString('hex'));
  return (decoded.resourceSpans ?? []).flatMap(({ resource, schemaUrl: resourceSchema = '', scopeSpans = [] }) =>
    scopeSpans.flatMap(({ scope, schemaUrl: scopeSchema = '', spans = [] }) =>
      spans.map(span => ({
        resource: attributesOf(resource?.attributes),
        resourceSchema,
        scope: scope?.name ?? '',
        scopeSchema,
        traceId: id(span.traceId),
        spanId: id(span.spanId),
        parentSpanId: id(span.parentSpanId),
        name: span.name,
        kind: String(span.kind).replace('SPAN_KIND_', '').toLowerCase(),
        start: ms(span.startTimeUnixNano),
        end: ms(span.endTimeUnixNano),
        attributes: attributesOf(span.attributes),
        events: (span.events ?? []).map(({ name, timeUnixNano }) => ({ name, time: ms(timeUnixNano) })),
        links: (span.links ?? []).map(({ traceId, spanId }) => ({ traceId: id(traceId), spanId: id(spanId) })),
        isError: span.status?.code === 'STATUS_CODE_ERROR',
      })),
    ),
  );
}

export interface OtlpReceiver {
  readonly url: string;
  /** All accepted spans, in order of arrival. */
  readonly spans: readonly ReceivedSpan[];
  readonly requests: readonly { readonly path: string; readonly headers: NodeJS.Dict<string | string[]> }[];
  /** Returns the decompressed bytes of every request, whether it was accepted or not. */
  raw(): Buffer;
  /** Sets the response to all following requests; `hang` sends none. */
  answer(status: number | 'hang'): void;
  close(): Promise<void>;
}

/** Starts a receiver of traces over OTLP/HTTP, in protobuf or JSON. */
export async function startOtlpReceiver(port = 0): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = [];
  const requests: OtlpReceiver['requests'][number][] = [];
  const bodies: Buffer[] = [];
  let status: number | 'hang' = 200;
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const packed = Buffer.concat(chunks);
    const body = request.headers['content-encoding'] === 'gzip' ? gunzipSync(packed) : packed;
    requests.push({ path: request.url ?? '', headers: request.headers });
    bodies.push(body);
    if (status === 'hang') return;
    const contentType = request.headers['content-type'] ?? '';
    if (status === 200) spans.push(...decode(body, contentType));
    response.writeHead(status, { 'content-type': contentType }).end();
  });
  await new Promise<void>(resolve => server.listen(port, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    requests,
    raw: () => Buffer.concat(bodies),
    answer(next) {
      status = next;
    },
    async close() {
      server.closeAllConnections();
      await new Promise(resolve => server.close(resolve));
    },
  };
}
