/** A native histogram of Prometheus, for non-negative values. Bucket width adapts to the values. */
export interface NativeHistogram {
  /** Bounds grow by the factor 2^(2^-schema), which is 1.09 for schema 3. */
  schema: number;
  zero: number;
  /** Bucket index of `counts[0]`. Bucket i contains values above factor^(i-1) and up to factor^i. */
  first: number;
  /** Counts from the lowest to the highest populated bucket. Not cumulative. */
  readonly counts: number[];
  populated: number;
}

/** Values up to this one count as zero: durations too short to measure. Same as in client_golang. */
export const ZERO_THRESHOLD = 2 ** -128;

/** Schema of a new histogram: quantiles are off by at most 4.4 %. client_golang chooses the same schema for a factor of 1.1. */
const FINEST = 3;
/** Buckets per octave at the finest schema. */
const PARTS = 2 ** FINEST;
/** Upper bounds of these buckets for values from 1 to 2, bit-identical to Prometheus's. The first contains only 1. */
const BOUNDS: readonly number[] = [
  0.5, 0.5452538663326288, 0.5946035575013605, 0.6484197773255048, 0.7071067811865475, 0.7711054127039704,
  0.8408964152537144, 0.9170040432046711, 1,
].map(half => half * 2);

/** Maximum number of populated buckets, as in client_golang and OpenTelemetry. Beyond it, pairs of buckets are merged. */
const MAX_POPULATED = 160;

export const createNative = (): NativeHistogram => ({ schema: FINEST, zero: 0, first: 0, counts: [], populated: 0 });

/** Returns the index of the bucket of twice the width that contains the bucket `index`. */
const inPairs = (index: number) => Math.ceil(index / 2) + 0;

function indexOf(value: number, schema: number): number {
  // Just below a power of two, the logarithm may be rounded up to it; the share is then just below 1, in the same bucket.
  const octave = Math.floor(Math.log2(value));
  const share = value / 2 ** octave;
  let part = 0;
  while (share > (BOUNDS[part] as number)) part += 1;
  let index = octave * PARTS + part;
  for (let level = FINEST; level > schema; level -= 1) index = inPairs(index);
  return index;
}

function halve(native: NativeHistogram): void {
  const { first, counts } = native;
  const before = counts.splice(0);
  native.schema -= 1;
  native.first = inPairs(first);
  for (const [at, count] of before.entries()) {
    const index = inPairs(first + at) - native.first;
    counts[index] = (counts[index] ?? 0) + count;
  }
  native.populated = counts.filter(count => count > 0).length;
}

export function observeNative(native: NativeHistogram, value: number): void {
  if (value <= ZERO_THRESHOLD) {
    native.zero += 1;
    return;
  }
  // Infinite values have no bucket, so `isComplete` is false from then on.
  if (!Number.isFinite(value)) return;
  const { counts } = native;
  const index = indexOf(value, native.schema);
  if (counts.length === 0) native.first = index;
  for (; native.first > index; native.first -= 1) counts.unshift(0);
  while (native.first + counts.length <= index) counts.push(0);
  const at = index - native.first;
  const before = counts[at] as number;
  counts[at] = before + 1;
  if (before > 0) return;
  native.populated += 1;
  while (native.populated > MAX_POPULATED) halve(native);
}

/** Whether the native histogram contains all `count` values of a histogram. */
export const isComplete = ({ zero, counts }: NativeHistogram, count: number): boolean =>
  counts.reduce((sum, each) => sum + each, zero) === count;
