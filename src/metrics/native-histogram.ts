/** Buckets that are as fine as the values ask for, as Prometheus' native histograms have them. Never negative values. */
export interface NativeHistogram {
  /** Bounds grow by the factor 2^(2^-schema): 1.09 at 3. */
  schema: number;
  zero: number;
  /** Index of the first of `counts`. The bucket of index i holds values above factor^(i-1) and up to factor^i. */
  first: number;
  /** From the lowest bucket that has a value to the highest. Not cumulative. */
  readonly counts: number[];
  populated: number;
}

/** As client_golang's: zero itself, and what no clock can measure. */
export const ZERO_THRESHOLD = 2 ** -128;

/** A quantile is off by at most 4.4 % then. client_golang chooses the same for a factor of 1.1. */
const FINEST = 3;
/** Buckets of an octave at the finest schema. */
const PARTS = 2 ** FINEST;
/** Upper bounds of these buckets, of values from 1 to 2, to the bit as Prometheus has them. The first holds 1 alone. */
const BOUNDS: readonly number[] = [
  0.5, 0.5452538663326288, 0.5946035575013605, 0.6484197773255048, 0.7071067811865475, 0.7711054127039704,
  0.8408964152537144, 0.9170040432046711, 1,
].map(half => half * 2);

/** Buckets with a value that a series has at most; then each pair becomes one. As client_golang and OpenTelemetry advise. */
const MOST = 160;

export const createNative = (): NativeHistogram => ({ schema: FINEST, zero: 0, first: 0, counts: [], populated: 0 });

/** Index of the bucket of twice the width that holds the bucket of index `index`. */
const inPairs = (index: number) => Math.ceil(index / 2) + 0;

function indexOf(value: number, schema: number): number {
  // The logarithm is rounded: right below a power of two it may be that power's, and the share just below 1, with the same bucket.
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
  // Has no bucket, so `isComplete` is false from now on.
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
  while (native.populated > MOST) halve(native);
}

export const totalOf = ({ zero, counts }: Pick<NativeHistogram, 'zero' | 'counts'>): number =>
  counts.reduce((sum, count) => sum + count, zero);

/** Whether it has all values of a histogram with `count` values. */
export const isComplete = (native: NativeHistogram, count: number): boolean => totalOf(native) === count;
