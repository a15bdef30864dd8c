import type { KeySample } from './evidence.ts';

/** Period of the samples that an estimate uses (ms). */
const WINDOW = 240_000;
/** Minimum duration of a falling trend (ms). */
const MIN_DURATION = 90_000;
const MIN_READS = 5;
/** Minimum decrease (messages). */
const MIN_DECREASE = 3;
/** Maximum standard error, relative to the pace. */
const MAX_ERROR = 0.04;

/** Estimates the time until the waitlist is empty (ms) from its trend since the maximum; undefined unless it shrinks steadily. */
export function timeToDrain(samples: readonly KeySample[], now: number): number | undefined {
  const within = samples.filter(({ at }) => now - at <= WINDOW);
  let [top, longest] = [0, 0];
  for (const [index, { waitlistSize }] of within.entries())
    if (waitlistSize >= longest) [top, longest] = [index, waitlistSize];
  const points = within.slice(top);
  const [first, last] = [points[0], points.at(-1)];
  if (!first || !last || points.length < MIN_READS || last.at - first.at < MIN_DURATION) return undefined;
  if (first.waitlistSize - last.waitlistSize < MIN_DECREASE) return undefined;
  const { pace, error } = regression(points);
  if (pace >= 0 || error > MAX_ERROR * -pace) return undefined;
  return last.waitlistSize / -pace;
}

/** Fits a line by least squares. Returns the growth of the waitlist (messages per ms) and its standard error. */
function regression(points: readonly KeySample[]): { pace: number; error: number } {
  const mean = (of: (sample: KeySample) => number) => points.reduce((all, each) => all + of(each), 0) / points.length;
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
