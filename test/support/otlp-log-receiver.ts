import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';
import generated from 'otlp-decoder/build/src/generated/root.js';

/** A log record as the receiver got it. Times: milliseconds since the Unix epoch; 0 where there is none. */
export interface ReceivedLog {
  readonly service: unknown;
  readonly event: string;
  readonly severity: string;
  readonly at: number;
  readonly observed: number;
  readonly traceId: string;
  readonly spanId: string;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly hasBody: boolean;
}

interface KeyValue {
  readonly key: string;
  readonly value?: Readonly<Record<string, unknown>>;
}

interface Decoded {
  readonly resourceLogs?: readonly {
    readonly resource?: { readonly attributes?: readonly KeyValue[] };
    readonly scopeLogs?: readonly {
      readonly logRecords?: readonly {
        readonly timeUnixNano: string;
        readonly observedTimeUnixNano: string;
        readonly severityNumber: string;
        readonly severityText: string;
        readonly eventName: string;
        readonly body?: object;
        readonly traceId?: string;
        readonly spanId?: string;
        readonly attributes?: readonly KeyValue[];
      }[];
    }[];
  }[];
}

const { ExportLogsServiceRequest } = generated.opentelemetry.proto.collector.logs.v1;

const attributesOf = (pairs: readonly KeyValue[] = []) =>
  Object.fromEntries(
    pairs.map(({ key, value = {} }) => {
      const [only] = Object.values(value);
      return [key, value.intValue === undefined ? only : Number(only)];
    }),
  );

const ms = (nanos: string) => Number(BigInt(nanos) / 1_000_000n);
const hex = (base64 = '') => Buffer.from(base64, 'base64').toString('hex');

/** The records of a request, by OpenTelemetry's own protobuf definitions. */
export function decodeLogs(body: Uint8Array): ReceivedLog[] {
  const decoded = ExportLogsServiceRequest.toObject(ExportLogsServiceRequest.decode(body), {
    longs: String,
    enums: String,
    bytes: String,
  }) as Decoded;
  return (decoded.resourceLogs ?? []).flatMap(({ resource, scopeLogs = [] }) =>
    scopeLogs.flatMap(({ logRecords = [] }) =>
      logRecords.map(record => ({
        service: attributesOf(resource?.attributes)['service.name'],
        event: record.eventName,
        severity: `${record.severityText} ${record.severityNumber.replace('SEVERITY_NUMBER_', '')}`,
        at: ms(record.timeUnixNano),
        observed: ms(record.observedTimeUnixNano),
        traceId: hex(record.traceId),
        spanId: hex(record.spanId),
        attributes: attributesOf(record.attributes),
        hasBody: record.body !== undefined && record.body !== null,
      })),
    ),
  );
}

/** What a receiver does with a request: a status; no answer at all; 200 with a body that does not end. */
export type LogAnswer = number | 'hang' | 'endless';

export interface LogReceiver {
  readonly url: string;
  /** Everything that it took, in the order in which it came. */
  readonly logs: readonly ReceivedLog[];
  readonly requests: readonly { readonly path: string; readonly headers: NodeJS.Dict<string | string[]> }[];
  /** Bytes of every request, taken or not, as they came out of gzip. */
  raw(): Buffer;
  /** What it answers from now on. Only with 200 it takes what it got. */
  answer(next: LogAnswer): void;
  close(): Promise<void>;
}

/** Until the client has had enough. */
function writeEndlessly(response: ServerResponse): void {
  const chunk = Buffer.alloc(64 * 1024, 0xff);
  const write = () => {
    while (!response.destroyed && response.write(chunk));
    if (!response.destroyed) response.once('drain', write);
  };
  response.writeHead(200);
  write();
}

/** A receiver of log records by OTLP over HTTP in protobuf. */
export async function startLogReceiver(port = 0): Promise<LogReceiver> {
  const logs: ReceivedLog[] = [];
  const requests: LogReceiver['requests'][number][] = [];
  const bodies: Buffer[] = [];
  let next: LogAnswer = 200;
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const packed = Buffer.concat(chunks);
    const body = request.headers['content-encoding'] === 'gzip' ? gunzipSync(packed) : packed;
    requests.push({ path: request.url ?? '', headers: request.headers });
    bodies.push(body);
    if (next === 'hang') return;
    if (next === 'endless') return writeEndlessly(response);
    if (next === 200) logs.push(...decodeLogs(body));
    response.writeHead(next, { 'content-type': 'application/x-protobuf' }).end();
  });
  await new Promise<void>(resolve => server.listen(port, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    logs,
    requests,
    raw: () => Buffer.concat(bodies),
    answer(answer) {
      next = answer;
    },
    async close() {
      server.closeAllConnections();
      await new Promise(resolve => server.close(resolve));
    },
  };
}
