import protobuf from 'protobufjs';

/** Messages of Prometheus's protobuf exposition format: a subset of metrics.proto in prometheus/client_model. */
const METRICS_PROTO = `
syntax = "proto3";
package io.prometheus.client;
message Timestamp { int64 seconds = 1; int32 nanos = 2; }
message LabelPair { string name = 1; string value = 2; }
enum MetricType { COUNTER = 0; GAUGE = 1; SUMMARY = 2; UNTYPED = 3; HISTOGRAM = 4; GAUGE_HISTOGRAM = 5; }
message Gauge { double value = 1; }
message Exemplar { repeated LabelPair label = 1; double value = 2; Timestamp timestamp = 3; }
message Counter { double value = 1; Exemplar exemplar = 2; Timestamp created_timestamp = 3; }
message Bucket { uint64 cumulative_count = 1; double upper_bound = 2; Exemplar exemplar = 3; double cumulative_count_float = 4; }
message BucketSpan { sint32 offset = 1; uint32 length = 2; }
message Histogram {
  uint64 sample_count = 1;
  double sample_sum = 2;
  repeated Bucket bucket = 3;
  double sample_count_float = 4;
  sint32 schema = 5;
  double zero_threshold = 6;
  uint64 zero_count = 7;
  double zero_count_float = 8;
  repeated BucketSpan negative_span = 9;
  repeated sint64 negative_delta = 10;
  repeated double negative_count = 11;
  repeated BucketSpan positive_span = 12;
  repeated sint64 positive_delta = 13;
  repeated double positive_count = 14;
  Timestamp created_timestamp = 15;
  repeated Exemplar exemplars = 16;
}
message Metric {
  repeated LabelPair label = 1;
  Gauge gauge = 2;
  Counter counter = 3;
  int64 timestamp_ms = 6;
  Histogram histogram = 7;
}
message MetricFamily { string name = 1; string help = 2; MetricType type = 3; repeated Metric metric = 4; string unit = 5; }
`;

interface Timestamp {
  readonly seconds: number;
  readonly nanos: number;
}

interface LabelPair {
  readonly name: string;
  readonly value: string;
}

interface Bucket {
  readonly cumulativeCount: number;
  readonly upperBound: number;
  readonly exemplar: {
    readonly label: readonly LabelPair[];
    readonly value: number;
    readonly timestamp: Timestamp;
  } | null;
}

export interface DecodedHistogram {
  readonly sampleCount: number;
  readonly sampleSum: number;
  readonly bucket: readonly Bucket[];
  readonly schema: number;
  readonly zeroThreshold: number;
  readonly zeroCount: number;
  readonly positiveSpan: readonly { readonly offset: number; readonly length: number }[];
  readonly positiveDelta: readonly number[];
  readonly createdTimestamp: Timestamp | null;
}

/** A sample. Exactly one of the three values is not null. */
interface DecodedMetric {
  readonly label: readonly LabelPair[];
  readonly gauge: { readonly value: number } | null;
  readonly counter: { readonly value: number; readonly createdTimestamp: Timestamp | null } | null;
  readonly histogram: DecodedHistogram | null;
}

export interface DecodedFamily {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly unit: string;
  readonly metric: readonly DecodedMetric[];
}

/** Decodes length-delimited families with code that is independent of the writer. Throws if the bytes are invalid. */
export function decodeFamilies(bytes: Uint8Array): DecodedFamily[] {
  const type = protobuf.parse(METRICS_PROTO).root.lookupType('io.prometheus.client.MetricFamily');
  const reader = protobuf.Reader.create(bytes);
  const families: DecodedFamily[] = [];
  while (reader.pos < reader.len) {
    const decoded = type.decodeDelimited(reader);
    const found = type.toObject(decoded, { longs: Number, enums: String, defaults: true });
    families.push(found as DecodedFamily);
  }
  return families;
}

/** Returns a unique key for a series: its name and labels as JSON. */
function seriesOf(name: string, labels: readonly LabelPair[]): string {
  return JSON.stringify([name, ...labels.map(({ name, value }) => [name, value])]);
}

/** Returns values by series, as in the text format. */
export function seriesOfFamily({ name, metric }: DecodedFamily): Map<string, number> {
  const series = new Map<string, number>();
  const put = (suffix: string, labels: readonly LabelPair[], value: number) => {
    const key = seriesOf(name + suffix, labels);
    if (series.has(key)) throw new Error(`twice: ${key}`);
    series.set(key, value);
  };
  for (const { label, gauge, counter, histogram } of metric) {
    const value = gauge ?? counter;
    if (value) put('', label, value.value);
    for (const { upperBound, cumulativeCount } of histogram?.bucket ?? []) {
      const le = upperBound === Number.POSITIVE_INFINITY ? '+Inf' : String(upperBound);
      put('_bucket', [...label, { name: 'le', value: le }], cumulativeCount);
    }
    if (!histogram) continue;
    put('_sum', label, histogram.sampleSum);
    put('_count', label, histogram.sampleCount);
  }
  return series;
}

interface NativeBucket {
  readonly above: number;
  readonly upTo: number;
  readonly count: number;
}

/** Decodes the buckets of a native histogram from spans and deltas, without the zero bucket. */
export function nativeBuckets({ schema, positiveSpan, positiveDelta }: DecodedHistogram): NativeBucket[] {
  const bound = (index: number) => 2 ** (index * 2 ** -schema);
  const buckets: NativeBucket[] = [];
  let [index, count, at] = [0, 0, 0];
  for (const { offset, length } of positiveSpan) {
    index += offset;
    for (const end = index + length; index < end; index += 1, at += 1) {
      count += positiveDelta[at] ?? Number.NaN;
      buckets.push({ above: bound(index - 1), upTo: bound(index), count });
    }
  }
  if (at !== positiveDelta.length) throw new Error(`${positiveDelta.length} deltas for ${at} buckets`);
  return buckets;
}
