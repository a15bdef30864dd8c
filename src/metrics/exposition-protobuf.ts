import { lengthOf } from './exposition-body.ts';
import type { Encoding, Part } from './exposition-encoding.ts';
import { unitOf } from './exposition-text.ts';
import type { Exemplar, Family, FamilyType, Sample } from './family.ts';
import { isComplete, type NativeHistogram, ZERO_THRESHOLD } from './native-histogram.ts';

/*
 * io.prometheus.client.MetricFamily (prometheus/client_model, metrics.proto) as strings with one byte per character,
 * because V8 joins, compares and copies them as fast as bytes.
 */

/** Encodes an unsigned integer of at most 53 bits. */
function varint(value: number): string {
  if (value < 128) return String.fromCharCode(value);
  let bytes = '';
  let rest = value;
  while (rest >= 128) {
    bytes += String.fromCharCode((rest % 128) + 128);
    rest = Math.floor(rest / 128);
  }
  return bytes + String.fromCharCode(rest);
}

/** Encodes a value of type `sint32` or `sint64`. */
const zigzag = (value: number) => varint(value < 0 ? -2 * value - 1 : 2 * value);

const WIRE = { varint: 0, double: 1, bytes: 2 } as const;

const tag = (field: number, wire: keyof typeof WIRE) => varint(field * 8 + WIRE[wire]);

const sized = (bytes: string) => varint(bytes.length) + bytes;

const scratch = new DataView(new ArrayBuffer(8));
const byte = (at: number) => scratch.getUint8(at);
function double(value: number): string {
  // Turn -0 into 0, because the text formats have no -0.
  scratch.setFloat64(0, value + 0, true);
  return String.fromCharCode(byte(0), byte(1), byte(2), byte(3), byte(4), byte(5), byte(6), byte(7));
}

/** Encodes text as UTF-8. Lone surrogates become U+FFFD. */
const utf8 = (text: string) => (/[^\0-\x7f]/.test(text) ? Buffer.from(text).toString('latin1') : text);

const FAMILY = { name: tag(1, 'bytes'), help: tag(2, 'bytes'), type: tag(3, 'varint'), metric: tag(4, 'bytes') };
const UNIT = tag(5, 'bytes');
/** Values of MetricType; infos are exposed as gauges. */
const TYPE: Readonly<Record<FamilyType, number>> = { counter: 0, gauge: 1, info: 1, histogram: 4 };

const LABEL = { pair: tag(1, 'bytes'), name: tag(1, 'bytes'), value: tag(2, 'bytes') };
const EXEMPLAR = { label: tag(1, 'bytes'), value: tag(2, 'double'), timestamp: tag(3, 'bytes') };
const METRIC = { gauge: tag(2, 'bytes'), counter: tag(3, 'bytes'), histogram: tag(7, 'bytes') };
const VALUE = tag(1, 'double');
const COUNTER_CREATED = tag(3, 'bytes');
const BUCKET = { count: tag(1, 'varint'), bound: tag(2, 'double'), exemplar: tag(3, 'bytes') };
const HISTOGRAM = {
  count: tag(1, 'varint'),
  sum: tag(2, 'double'),
  bucket: tag(3, 'bytes'),
  schema: tag(5, 'varint'),
  zeroThreshold: tag(6, 'double'),
  zeroCount: tag(7, 'varint'),
  spans: tag(12, 'bytes'),
  deltas: tag(13, 'bytes'),
  created: tag(15, 'bytes'),
};
const SPAN = { offset: tag(1, 'varint'), length: tag(2, 'varint') };
const TIMESTAMP = { seconds: tag(1, 'varint'), nanos: tag(2, 'varint') };

function timestamp(ms: number): string {
  return sized(
    TIMESTAMP.seconds + varint(Math.floor(ms / 1000)) + TIMESTAMP.nanos + varint(Math.floor(ms % 1000) * 1e6),
  );
}

const created = (field: string, since: number | undefined) => (since === undefined ? '' : field + timestamp(since));

/** Returns a function that encodes LabelPairs, so that the name is encoded only once. */
function labelOf(name: string): (value: string) => string {
  const lead = LABEL.name + sized(name) + LABEL.value;
  return value => sized(lead + sized(utf8(value)));
}

const traceLabel = labelOf('trace_id');

const exemplarBytes = ({ traceId, value, time }: Exemplar) =>
  sized(EXEMPLAR.label + traceLabel(traceId) + EXEMPLAR.value + double(value) + EXEMPLAR.timestamp + timestamp(time));

function bucketBytes({ labels, value, exemplar }: Sample): string {
  const named: Readonly<Record<string, string | undefined>> = labels;
  const bound = named.le === '+Inf' ? Number.POSITIVE_INFINITY : Number(named.le);
  const trace = exemplar ? BUCKET.exemplar + exemplarBytes(exemplar) : '';
  return HISTOGRAM.bucket + sized(BUCKET.count + varint(value) + BUCKET.bound + double(bound) + trace);
}

/** Maximum number of empty buckets in a gap that is filled. A wider gap takes less space if a new span starts after it. */
const SMALL_GAP = 2;

/** Encodes the spans of native buckets, and the difference between each bucket's count and that of the previous bucket. */
function spansOf({ first, counts }: NativeHistogram): { spans: string; deltas: string } {
  const spans: { offset: number; length: number }[] = [];
  let [deltas, before, empty] = ['', 0, first];
  for (const count of counts) {
    const open = spans.at(-1);
    if (count === 0) {
      empty += 1;
      continue;
    }
    if (open && empty <= SMALL_GAP) {
      for (; empty > 0; empty -= 1, before = 0, open.length += 1) deltas += zigzag(-before);
      open.length += 1;
    } else spans.push({ offset: empty, length: 1 });
    deltas += zigzag(count - before);
    [before, empty] = [count, 0];
  }
  const bytes = spans.map(
    ({ offset, length }) => HISTOGRAM.spans + sized(SPAN.offset + zigzag(offset) + SPAN.length + varint(length)),
  );
  return { spans: bytes.join(''), deltas };
}

function nativeBytes(native: NativeHistogram): string {
  const { spans, deltas } = spansOf(native);
  const head = HISTOGRAM.schema + zigzag(native.schema) + HISTOGRAM.zeroThreshold + double(ZERO_THRESHOLD);
  const zero = HISTOGRAM.zeroCount + varint(native.zero);
  return head + zero + spans + (deltas === '' ? '' : HISTOGRAM.deltas + sized(deltas));
}

/** Encodes a series; undefined if it has native buckets and `isNative` is false, or the reverse. */
function histogramBytes(last: Sample, buckets: readonly Sample[], sum: number, isNative: boolean): string | undefined {
  const { value: count, since, whole } = last;
  const native = whole?.state.native;
  const added = native && isComplete(native, count) ? nativeBytes(native) : '';
  if (isNative !== (added !== '')) return undefined;
  const values = HISTOGRAM.count + varint(count) + HISTOGRAM.sum + double(sum) + buckets.map(bucketBytes).join('');
  return METRIC.histogram + sized(values + added + created(HISTOGRAM.created, since));
}

function valueBytes(type: FamilyType, { value, since }: Sample): string {
  if (type === 'counter') return METRIC.counter + sized(VALUE + double(value) + created(COUNTER_CREATED, since));
  return METRIC.gauge + sized(VALUE + double(value));
}

const NATIVE = ' native';

/** Returns separate parts for histograms with and without native buckets: Prometheus rejects a scrape with both in one message. */
function parts(family: Family): readonly Part[] {
  const all = { key: family.name, family };
  return family.type === 'histogram' ? [{ key: family.name + NATIVE, family }, all] : [all];
}

/** Encodes `metric` fields. A histogram is encoded when its last sample is reached, the `_count`. */
function createMetrics({ key, family }: Part, account: string | undefined): (samples: readonly Sample[]) => string {
  const isNative = key.endsWith(NATIVE);
  const lead = account === undefined ? '' : LABEL.pair + labelOf('account')(account);
  const labels = family.labels.map(name => ({ name, bytesOf: labelOf(name) }));
  const seen = new Set<string>();
  let buckets: Sample[] = [];
  let sum = 0;
  return samples => {
    let metrics = '';
    for (const sample of samples) {
      if (sample.suffix === '_bucket') buckets.push(sample);
      else if (sample.suffix === '_sum') sum = sample.value;
      else {
        const named: Readonly<Record<string, string | undefined>> = sample.labels;
        let pairs = lead;
        for (const { name, bytesOf } of labels) {
          const text = named[name];
          if (text !== undefined) pairs += LABEL.pair + bytesOf(text);
        }
        const isHistogram = sample.suffix === '_count';
        const value = isHistogram ? histogramBytes(sample, buckets, sum, isNative) : valueBytes(family.type, sample);
        if (value !== undefined && !seen.has(pairs)) {
          seen.add(pairs);
          metrics += FAMILY.metric + sized(pairs + value);
        }
        buckets = [];
      }
    }
    return metrics;
  };
}

function header(family: Family): string {
  const unit = unitOf(family);
  const lead = FAMILY.name + sized(family.name) + FAMILY.help + sized(utf8(family.help));
  return lead + FAMILY.type + varint(TYPE[family.type]) + (unit === undefined ? '' : UNIT + sized(unit));
}

export const PROTOBUF: Encoding = {
  charset: 'latin1',
  parts,
  header,
  framed(header, samples) {
    const length = samples.reduce((sum, { content }) => sum + lengthOf(content), 0);
    return length === 0 ? '' : varint(header.length + length) + header;
  },
  samples: createMetrics,
  hasExemplars: () => false,
  end: () => '',
};
