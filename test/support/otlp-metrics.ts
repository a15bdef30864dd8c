import generated from 'otlp-decoder/build/src/generated/root.js';

/** A received data point. Times are in milliseconds since the Unix epoch. */
export interface ReceivedPoint {
  readonly resource: Readonly<Record<string, string>>;
  readonly name: string;
  readonly unit: string;
  readonly description: string;
  /** A `sum` is not monotonic. All types except gauges are cumulative. */
  readonly type: 'counter' | 'sum' | 'gauge' | 'histogram';
  readonly labels: Readonly<Record<string, string>>;
  readonly since: number | undefined;
  readonly time: number;
  /** The value, or the count of a histogram; undefined if the series has ended. */
  readonly value: number | undefined;
  readonly sum?: number;
  readonly counts?: readonly number[];
  readonly bounds?: readonly number[];
  readonly exemplars: readonly { readonly traceId: string; readonly value: number; readonly time: number }[];
}

interface KeyValue {
  readonly key: string;
  readonly value: { readonly stringValue?: string };
}

interface DecodedPoint {
  readonly attributes?: readonly KeyValue[];
  readonly startTimeUnixNano?: string;
  readonly timeUnixNano: string;
  readonly asDouble?: number;
  readonly count?: string;
  readonly sum?: number;
  readonly bucketCounts?: readonly string[];
  readonly explicitBounds?: readonly number[];
  readonly flags?: number;
  readonly exemplars?: readonly {
    readonly traceId: string;
    readonly asDouble: number;
    readonly timeUnixNano: string;
  }[];
}

interface Data {
  readonly dataPoints?: readonly DecodedPoint[];
  readonly isMonotonic?: boolean;
  readonly aggregationTemporality?: string;
}

interface Decoded {
  readonly resourceMetrics?: readonly {
    readonly resource?: { readonly attributes?: readonly KeyValue[] };
    readonly scopeMetrics?: readonly {
      readonly metrics?: readonly {
        readonly name: string;
        readonly unit?: string;
        readonly description?: string;
        readonly gauge?: Data;
        readonly sum?: Data;
        readonly histogram?: Data;
      }[];
    }[];
  }[];
}

const { ExportMetricsServiceRequest } = generated.opentelemetry.proto.collector.metrics.v1;

const NO_RECORDED_VALUE = 1;
const ms = (nanos: string) => Number(BigInt(nanos) / 1000n) / 1000;
const textsOf = (pairs: readonly KeyValue[] = []) =>
  Object.fromEntries(pairs.map(({ key, value }) => [key, value.stringValue ?? '']));

/** Returns the data points of a request body. Throws if a sum or histogram is not cumulative. */
export function decodeMetrics(body: Buffer): ReceivedPoint[] {
  const decoded = ExportMetricsServiceRequest.toObject(ExportMetricsServiceRequest.decode(body), {
    longs: String,
    enums: String,
    bytes: String,
  }) as Decoded;
  return (decoded.resourceMetrics ?? []).flatMap(({ resource, scopeMetrics = [] }) =>
    scopeMetrics.flatMap(({ metrics = [] }) =>
      metrics.flatMap(({ name, unit = '', description = '', gauge, sum, histogram }) => {
        const data = gauge ?? sum ?? histogram;
        const type = gauge ? 'gauge' : histogram ? 'histogram' : sum?.isMonotonic ? 'counter' : 'sum';
        if (!gauge && data?.aggregationTemporality !== 'AGGREGATION_TEMPORALITY_CUMULATIVE') {
          throw new Error(`${name} is not cumulative`);
        }
        return (data?.dataPoints ?? []).map((point): ReceivedPoint => {
          const { attributes, startTimeUnixNano, timeUnixNano, asDouble, count, flags, exemplars = [] } = point;
          const value = histogram ? Number(count) : asDouble;
          return {
            resource: textsOf(resource?.attributes),
            name,
            unit,
            description,
            type,
            labels: textsOf(attributes),
            since: startTimeUnixNano === undefined ? undefined : ms(startTimeUnixNano),
            time: ms(timeUnixNano),
            value: flags === NO_RECORDED_VALUE ? undefined : value,
            ...(histogram
              ? {
                  ...(point.sum === undefined ? {} : { sum: point.sum }),
                  counts: (point.bucketCounts ?? []).map(Number),
                  bounds: point.explicitBounds ?? [],
                }
              : {}),
            exemplars: exemplars.map(({ traceId, asDouble, timeUnixNano }) => ({
              traceId: Buffer.from(traceId, 'base64').toString('hex'),
              value: asDouble,
              time: ms(timeUnixNano),
            })),
          };
        });
      }),
    ),
  );
}

/**
 * Returns the points' values by series; histograms are split into series as in the text format. A key is the name followed by
 * the sorted labels (JSON).
 */
export function linesOf(points: readonly ReceivedPoint[]): Map<string, number> {
  const lines = new Map<string, number>();
  const add = (name: string, labels: Readonly<Record<string, string>>, value: number) =>
    lines.set(`${name}${JSON.stringify(Object.entries(labels).sort())}`, value);
  for (const { name, labels, value, sum = 0, counts = [], bounds, type } of points) {
    if (value === undefined) continue;
    if (type !== 'histogram') {
      add(name, labels, value);
      continue;
    }
    let below = 0;
    for (const [index, count] of counts.entries()) {
      below += count;
      add(`${name}_bucket`, { ...labels, le: String(bounds?.[index] ?? Number.POSITIVE_INFINITY) }, below);
    }
    add(`${name}_sum`, labels, sum);
    add(`${name}_count`, labels, value);
  }
  return lines;
}
