import type { Sample } from './evidence.ts';

/** As long as this a waitlist is looked at, and it must have fallen for so long, milliseconds. */
const WINDOW = 240_000;
const SHORTEST = 90_000;
const FEWEST_READS = 5;
/** Fewer messages less are no trend. */
const LEAST_FALL = 3;
/** Of the pace that is told: its standard error, as a share of it. */
const MOST_ERROR = 0.04;

/** Time until the waitlist is empty (ms), at the pace since the waitlist was longest. Undefined unless it falls evenly. */
export function timeToDrain(samples: readonly Sample[], now: number): number | undefined {
  const within = samples.filter(({ at }) => now - at <= WINDOW);
  let [top, longest] = [0, 0];
  for (const [index, { waitlistSize }] of within.entries())
    if (waitlistSize >= longest) [top, longest] = [index, waitlistSize];
  const points = within.slice(top);
  const [first, last] = [points[0], points.at(-1)];
  if (!first || !last || points.length < FEWEST_READS || last.at - first.at < SHORTEST) return undefined;
  if (first.waitlistSize - last.waitlistSize < LEAST_FALL) return undefined;
  const { pace, error } = regression(points);
  if (pace >= 0 || error > MOST_ERROR * -pace) return undefined;
  return last.waitlistSize / -pace;
}

/** Messages in a millisecond by which a waitlist grows, and the standard error of that: by least squares. */
function regression(points: readonly Sample[]): { pace: number; error: number } {
  const mean = (of: (sample: Sample) => number) => points.reduce((all, each) => all + of(each), 0) / points.length;
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
