import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import type { Exemplar, Family, Sample, WholeHistogram } from '../metrics/family.ts';

/**
 * Encodes metrics as OTLP protobuf, with the field numbers of opentelemetry/proto/metrics/v1/metrics.proto. OpenTelemetry's own
 * serializer supports neither exemplars nor the flag that marks the end of a series.
 */

const { LengthDelimited: BYTES, Bit64: FIXED, Varint: VARINT } = WireType;
const CUMULATIVE = 2;
const NO_RECORDED_VALUE = 1;

/** Latest time that fits into OTLP's 64 bits (ms since the Unix epoch), in 2554. */
export const LATEST = 18_446_744_073_709;

/** Converts milliseconds to nanoseconds. Returns 0 (no time) above `LATEST`: the service may return such times. */
const nanos = (ms: number) => (ms <= LATEST ? BigInt(Math.round(ms * 1000)) * 1000n : 0n);

type Attributes = readonly (readonly [string, string | undefined])[];

/** Writes KeyValues. Omits empty values: Prometheus treats an empty label as a missing one. */
function writeAttributes(writer: BinaryWriter, field: number, attributes: Attributes): void {
  for (const [key, value] of attributes) {
    if (value === undefined || value === '') continue;
    writer.tag(field, BYTES).fork().tag(1, BYTES).string(key);
    writer.tag(2, BYTES).fork().tag(1, BYTES).string(value).join().join();
  }
}

function writeTimes(writer: BinaryWriter, since: number | undefined, time: number): void {
  // After the clock was set back, `since` may be later than `time`, which receivers reject.
  if (since !== undefined && since <= time) writer.tag(2, FIXED).fixed64(nanos(since));
  writer.tag(3, FIXED).fixed64(nanos(time));
}

/** Common fields of data points. Times are in milliseconds since the Unix epoch. */
export interface DataPoint {
  readonly attributes: Attributes;
  readonly since?: number | undefined;
  /** Time of the push. */
  readonly time: number;
}

/** Writes a NumberDataPoint. An undefined value marks the end of the series. */
export function writeNumber(
  writer: BinaryWriter,
  { attributes, since, time }: DataPoint,
  value: number | undefined,
): void {
  writer.tag(1, BYTES).fork();
  writeAttributes(writer, 7, attributes);
  writeTimes(writer, since, time);
  if (value === undefined) writer.tag(8, VARINT).uint32(NO_RECORDED_VALUE);
  else writer.tag(4, FIXED).double(value);
  writer.join();
}

function writeExemplar(writer: BinaryWriter, { traceId, value, time }: Exemplar): void {
  writer.tag(8, BYTES).fork().tag(2, FIXED).fixed64(nanos(time)).tag(3, FIXED).double(value);
  writer.tag(5, BYTES).bytes(Buffer.from(traceId, 'hex')).join();
}

/** Writes a HistogramDataPoint. An undefined sum marks the end of the series. */
export function writeHistogram(
  writer: BinaryWriter,
  { attributes, since, time }: DataPoint,
  { bounds, state: { counts, exemplars } }: WholeHistogram,
  sum: number | undefined,
): void {
  writer.tag(1, BYTES).fork();
  writeTimes(writer, since, time);
  writer.tag(4, FIXED).fixed64(counts.reduce((a, b) => a + b, 0));
  if (sum !== undefined) writer.tag(5, FIXED).double(sum);
  writer.tag(6, BYTES).fork();
  for (const count of counts) writer.fixed64(count);
  writer.join().tag(7, BYTES).fork();
  for (const bound of bounds) writer.double(bound);
  writer.join();
  for (const exemplar of exemplars ?? []) if (exemplar) writeExemplar(writer, exemplar);
  writeAttributes(writer, 9, attributes);
  if (sum === undefined) writer.tag(10, VARINT).uint32(NO_RECORDED_VALUE);
  writer.join();
}

const UNITS: readonly (readonly [suffix: string, unit: string])[] = [
  ['_seconds', 's'],
  ['_bytes', 'By'],
  ['_ratio', '1'],
];

/** Returns the UCUM unit for the suffix of a family's name; empty for a plain count. */
export function ucumUnitOf(name: string): string {
  const base = name.replace(/_total$/, '');
  return UNITS.find(([suffix]) => base.endsWith(suffix))?.[1] ?? '';
}

interface MetricPoints {
  readonly family: Family;
  readonly points: Uint8Array;
}

/**
 * Writes a Metric with its points. The name keeps its unit and `_total`, as OpenTelemetry's Prometheus compatibility requires.
 * An info metric becomes a non-monotonic sum.
 */
function writeMetric(writer: BinaryWriter, { family, points }: MetricPoints): void {
  const { name, help, type } = family;
  writer.tag(2, BYTES).fork().tag(1, BYTES).string(name).tag(2, BYTES).string(help);
  const unit = ucumUnitOf(name);
  if (unit !== '') writer.tag(3, BYTES).string(unit);
  const kind = type === 'gauge' ? 5 : type === 'histogram' ? 9 : 7;
  writer.tag(kind, BYTES).fork().raw(points);
  if (type !== 'gauge') writer.tag(2, VARINT).uint32(CUMULATIVE);
  if (type === 'counter') writer.tag(3, VARINT).bool(true);
  writer.join().join();
}

export interface Origin {
  readonly resource: Readonly<Record<string, string>>;
  readonly version: string;
}

/** Returns an encoded ExportMetricsServiceRequest. */
export function exportRequest({ resource, version }: Origin, metrics: Iterable<MetricPoints>): Uint8Array {
  const writer = new BinaryWriter();
  writer.tag(1, BYTES).fork().tag(1, BYTES).fork();
  writeAttributes(writer, 1, Object.entries(resource));
  writer.join().tag(2, BYTES).fork();
  writer.tag(1, BYTES).fork().tag(1, BYTES).string('delivery-watch').tag(2, BYTES).string(version).join();
  for (const metric of metrics) writeMetric(writer, metric);
  return writer.join().join().finish();
}

/** Returns the sample's labels in the order of the family's labels, without `le`. */
export function attributesOf(account: string | undefined, { labels }: Family, sample: Sample): Attributes {
  const own = labels.map(label => [label, sample.labels[label]] as const);
  return account === undefined ? own : [['account', account], ...own];
}
