/** Size of a waitlist at the time `at` (ms since the Unix epoch). */
export interface WaitlistSample {
  readonly at: number;
  readonly waitlistSize: number;
}

/** Period of the samples that an estimate uses (ms). */
const WINDOW = 240_000;
/** Minimum duration of a falling trend (ms). */
const MIN_DURATION = 90_000;
const MIN_READS = 5;
/** Minimum decrease (messages). */
const MIN_DECREASE = 3;
/** Maximum standard error, relative to the pace. */
const MAX_ERROR = 0.03;

/** Adds a sample, and drops the samples before the last maximum of the window. The first sample is the maximum. */
export function addSample(samples: readonly WaitlistSample[], added: WaitlistSample): readonly WaitlistSample[] {
  if (added.waitlistSize >= (samples[0]?.waitlistSize ?? 0)) return [added];
  const within = [...samples.filter(({ at }) => added.at - at <= WINDOW), added];
  const longest = within.reduce((longest, { waitlistSize }) => Math.max(longest, waitlistSize), 0);
  return within.slice(within.findLastIndex(({ waitlistSize }) => waitlistSize === longest));
}

/** Estimates the time until the waitlist is empty (ms) from the samples since its maximum; undefined unless it shrinks steadily. */
export function timeToDrain(samples: readonly WaitlistSample[]): number | undefined {
  const [first, last] = [samples[0], samples.at(-1)];
  if (!first || !last || samples.length < MIN_READS || last.at - first.at < MIN_DURATION) return undefined;
  if (first.waitlistSize - last.waitlistSize < MIN_DECREASE) return undefined;
  const { pace, error } = regression(samples);
  if (pace >= 0 || error > MAX_ERROR * -pace) return undefined;
  return last.waitlistSize / -pace;
}

/** Fits a line by least squares. Returns the growth of the waitlist (messages per ms) and its standard error. */
function regression(points: readonly WaitlistSample[]): { pace: number; error: number } {
  const mean = (of: (sample: WaitlistSample) => number) =>
    points.reduce((all, each) => all + of(each), 0) / points.length;
  const [time, size] = [mean(({ at }) => at), mean(({ waitlistSize }) => waitlistSize)];
  let [squares, products] = [0, 0];
  for (const { at, waitlistSize } of points) {
    squares += (at - time) ** 2;
    products += (at - time) * (waitlistSize - size);
  }
  const pace = products / squares;
  let rest = 0;
  for (const { at, waitlistSize } of points) rest += (waitlistSize - size - pace * (at - time)) ** 2;
  return { pace, error: Math.sqrt(rest / (points.length - 2) / squares) };
}
