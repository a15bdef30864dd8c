import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import { lengthOf } from './exposition-body.ts';
import type { Encoding, Part } from './exposition-encoding.ts';
import { unitOf } from './exposition-text.ts';
import type { Exemplar, Family, FamilyType, Sample } from './family.ts';
import { isComplete, type NativeHistogram, ZERO_THRESHOLD } from './native-histogram.ts';

/*
 * Encodes messages of io.prometheus.client.MetricFamily, with the field numbers of prometheus/client_model's metrics.proto.
 * Encoded messages are strings with one byte per character, because V8 joins and compares strings as fast as bytes.
 */

const { LengthDelimited: BYTES, Bit64: DOUBLE, Varint: VARINT } = WireType;

/** Values of MetricType; infos are exposed as gauges. */
const TYPE: Readonly<Record<FamilyType, number>> = { counter: 0, gauge: 1, info: 1, histogram: 4 };

type Labels = Readonly<Record<string, string | undefined>>;

/** Shared, because creating a writer for each short message would take twice as long. */
const writer = new BinaryWriter();

/** Returns the bytes that `write` writes. */
function encode(write: () => void): string {
  // Discard the bytes of a call that failed.
  writer.finish();
  write();
  return Buffer.from(writer.finish().buffer).toString('latin1');
}

function writeLabel(name: string, value: string): void {
  writer.tag(1, BYTES).fork().tag(1, BYTES).string(name).tag(2, BYTES).string(value).join();
}

/** Writes -0 as 0, because the text formats have no -0. */
const writeDouble = (field: number, value: number) => writer.tag(field, DOUBLE).double(value + 0);

/** Writes a Timestamp (ms since the Unix epoch). */
function writeTime(field: number, ms: number): void {
  const [seconds, nanos] = [Math.floor(ms / 1000), Math.floor(ms % 1000) * 1e6];
  writer.tag(field, BYTES).fork().tag(1, VARINT).int64(seconds).tag(2, VARINT).int32(nanos).join();
}

function writeExemplar({ traceId, value, time }: Exemplar): void {
  writer.tag(3, BYTES).fork();
  writeLabel('trace_id', traceId);
  writeDouble(2, value);
  writeTime(3, time);
  writer.join();
}

function writeBucket({ labels, value, exemplar }: Sample): void {
  const { le }: Labels = labels;
  writer.tag(3, BYTES).fork().tag(1, VARINT).uint64(value);
  writeDouble(2, le === '+Inf' ? Number.POSITIVE_INFINITY : Number(le));
  if (exemplar) writeExemplar(exemplar);
  writer.join();
}

/** Maximum number of empty buckets in a gap that is filled. A wider gap takes less space if a new span starts after it. */
const SMALL_GAP = 2;

/** Returns the spans of native buckets, and the difference between each bucket's count and the count before it. */
function spansOf({ first, counts }: NativeHistogram) {
  const spans: { offset: number; length: number }[] = [];
  const deltas: number[] = [];
  let [before, empty] = [0, first];
  for (const count of counts) {
    const open = spans.at(-1);
    if (count === 0) {
      empty += 1;
      continue;
    }
    if (open && empty <= SMALL_GAP) {
      for (; empty > 0; empty -= 1, before = 0, open.length += 1) deltas.push(-before);
      open.length += 1;
    } else spans.push({ offset: empty, length: 1 });
    deltas.push(count - before);
    [before, empty] = [count, 0];
  }
  return { spans, deltas };
}

function writeNative(native: NativeHistogram): void {
  const { spans, deltas } = spansOf(native);
  writer.tag(5, VARINT).sint32(native.schema);
  writeDouble(6, ZERO_THRESHOLD);
  writer.tag(7, VARINT).uint64(native.zero);
  for (const { offset, length } of spans) {
    writer.tag(12, BYTES).fork().tag(1, VARINT).sint32(offset).tag(2, VARINT).uint32(length).join();
  }
  writer.tag(13, BYTES).fork();
  for (const delta of deltas) writer.sint64(delta);
  writer.join();
}

/** Native buckets of a histogram; undefined if it has none for all its observations. */
function nativeOf({ value: count, whole }: Sample): NativeHistogram | undefined {
  const native = whole?.state.native;
  return native && isComplete(native, count) ? native : undefined;
}

/** Writes a histogram. Its last sample is the `_count`. */
function writeHistogram(last: Sample, buckets: readonly Sample[], sum: number): void {
  writer.tag(7, BYTES).fork().tag(1, VARINT).uint64(last.value);
  writeDouble(2, sum);
  for (const bucket of buckets) writeBucket(bucket);
  const native = nativeOf(last);
  if (native) writeNative(native);
  if (last.since !== undefined) writeTime(15, last.since);
  writer.join();
}

function writeValue(type: FamilyType, { value, since }: Sample): void {
  writer.tag(type === 'counter' ? 3 : 2, BYTES).fork();
  writeDouble(1, value);
  if (type === 'counter' && since !== undefined) writeTime(3, since);
  writer.join();
}

const NATIVE = ' native';

/** Returns separate parts for histograms with and without native buckets: Prometheus rejects a scrape with both in one message. */
function parts(family: Family): readonly Part[] {
  const all = { key: family.name, family };
  return family.type === 'histogram' ? [{ key: family.name + NATIVE, family }, all] : [all];
}

/** Returns a text that identifies a series of the family. Lone surrogates equal U+FFFD, as which they are encoded. */
const seriesOf = (family: Family, labels: Labels) =>
  family.labels
    .map(name => labels[name]?.toWellFormed())
    .map(text => (text === undefined ? '' : `${text.length}:${text}`))
    .join();

/** Encodes `metric` fields. A histogram is encoded when its last sample is reached, the `_count`. */
function createMetrics({ key, family }: Part, account: string | undefined): (samples: readonly Sample[]) => string {
  const isNative = key.endsWith(NATIVE);
  const seen = new Set<string>();
  let buckets: Sample[] = [];
  let sum = 0;
  const write = (samples: readonly Sample[]) => {
    for (const sample of samples) {
      if (sample.suffix === '_bucket') buckets.push(sample);
      else if (sample.suffix === '_sum') sum = sample.value;
      else {
        const labels: Labels = sample.labels;
        const isHistogram = sample.suffix === '_count';
        const series = seriesOf(family, labels);
        if (!seen.has(series) && (!isHistogram || isNative === (nativeOf(sample) !== undefined))) {
          seen.add(series);
          writer.tag(4, BYTES).fork();
          if (account !== undefined) writeLabel('account', account);
          for (const name of family.labels) {
            const text = labels[name];
            if (text !== undefined) writeLabel(name, text);
          }
          if (isHistogram) writeHistogram(sample, buckets, sum);
          else writeValue(family.type, sample);
          writer.join();
        }
        buckets = [];
      }
    }
  };
  return samples => encode(() => write(samples));
}

function header(family: Family): string {
  const { name, help, type } = family;
  const unit = unitOf(family);
  return encode(() => {
    writer.tag(1, BYTES).string(name).tag(2, BYTES).string(help).tag(3, VARINT).int32(TYPE[type]);
    if (unit !== undefined) writer.tag(5, BYTES).string(unit);
  });
}

export const PROTOBUF: Encoding = {
  charset: 'latin1',
  parts,
  header,
  framed(header, samples) {
    const length = samples.reduce((sum, { content }) => sum + lengthOf(content), 0);
    return length === 0 ? '' : encode(() => writer.uint32(header.length + length)) + header;
  },
  samples: createMetrics,
  hasExemplars: () => false,
  end: () => '',
};
