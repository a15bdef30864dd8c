import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import type { Exemplar, Family, Sample, WholeHistogram } from '../metrics/family.ts';

/**
 * OTLP's metrics in protobuf, by opentelemetry/proto/metrics/v1/metrics.proto: the numbers are those of its fields. OpenTelemetry's
 * own serializer has no place for exemplars, nor for the flag that says that a series has ended.
 */

const { LengthDelimited: BYTES, Bit64: FIXED, Varint: VARINT } = WireType;
const CUMULATIVE = 2;
const NO_RECORDED_VALUE = 1;

/** The latest time that OTLP has room for, in 2554. Milliseconds since the Unix epoch. */
export const LATEST = 18_446_744_073_709;

/**
 * Milliseconds as nanoseconds, both since the Unix epoch. Of a later time than there is room for, which a service may tell, 0:
 * none.
 */
const nanos = (ms: number) => (ms <= LATEST ? BigInt(Math.round(ms * 1000)) * 1000n : 0n);

type Attributes = readonly (readonly [string, string | undefined])[];

/** KeyValues. One without a text is left out: in Prometheus that is the same. */
function writeAttributes(writer: BinaryWriter, field: number, attributes: Attributes): void {
  for (const [key, value] of attributes) {
    if (value === undefined || value === '') continue;
    writer.tag(field, BYTES).fork().tag(1, BYTES).string(key);
    writer.tag(2, BYTES).fork().tag(1, BYTES).string(value).join().join();
  }
}

function writeTimes(writer: BinaryWriter, since: number | undefined, time: number): void {
  // A clock that went back: nothing can begin after it was seen.
  if (since !== undefined && since <= time) writer.tag(2, FIXED).fixed64(nanos(since));
  writer.tag(3, FIXED).fixed64(nanos(time));
}

/** What every data point has. `time`: of the push, milliseconds since the Unix epoch. */
export interface Point {
  readonly attributes: Attributes;
  readonly since?: number | undefined;
  readonly time: number;
}

/** NumberDataPoint; without a value the series has ended. */
export function writeNumber(writer: BinaryWriter, { attributes, since, time }: Point, value: number | undefined): void {
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

/** HistogramDataPoint; without a sum the series has ended. */
export function writeHistogram(
  writer: BinaryWriter,
  { attributes, since, time }: Point,
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

/** The unit that the name of a family ends in, as UCUM has it; empty for a number of things. */
export function unitOf(name: string): string {
  const base = name.replace(/_total$/, '');
  return UNITS.find(([suffix]) => base.endsWith(suffix))?.[1] ?? '';
}

interface MetricPoints {
  readonly family: Family;
  readonly points: Uint8Array;
}

/**
 * A Metric with its points. The name keeps unit and `_total`, as OpenTelemetry's compatibility with Prometheus requires; an
 * info is a sum that is not monotonic.
 */
function writeMetric(writer: BinaryWriter, { family, points }: MetricPoints): void {
  const { name, help, type } = family;
  writer.tag(2, BYTES).fork().tag(1, BYTES).string(name).tag(2, BYTES).string(help);
  const unit = unitOf(name);
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

/** ExportMetricsServiceRequest of families with their points. */
export function exportRequest({ resource, version }: Origin, metrics: Iterable<MetricPoints>): Uint8Array {
  const writer = new BinaryWriter();
  writer.tag(1, BYTES).fork().tag(1, BYTES).fork();
  writeAttributes(writer, 1, Object.entries(resource));
  writer.join().tag(2, BYTES).fork();
  writer.tag(1, BYTES).fork().tag(1, BYTES).string('delivery-watch').tag(2, BYTES).string(version).join();
  for (const metric of metrics) writeMetric(writer, metric);
  return writer.join().join().finish();
}

/** Labels of a sample in the order of its family's, without a bucket's bound. */
export function attributesOf(account: string | undefined, { labels }: Family, sample: Sample): Attributes {
  const own = labels.map(label => [label, sample.labels[label]] as const);
  return account === undefined ? own : [['account', account], ...own];
}
