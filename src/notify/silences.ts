import { isOpen } from '../kit/cron.ts';
import { textOf } from '../kit/record.ts';
import type { Labels } from './notice.ts';
import type { SilenceOptions } from './options.ts';

export type Silences = ReturnType<typeof createSilences>;

/** Whether all labels match, each with one of its values. As in Alertmanager, a missing label matches the empty value. */
export const matches = (match: SilenceOptions['match'], labels: Labels): boolean =>
  Object.entries(match).every(([name, values]) => values.includes(textOf(labels, name)));

export function isInForce({ from, until, windows }: SilenceOptions, at: number): boolean {
  if ((from !== null && at < from) || (until !== null && at >= until)) return false;
  return windows.length === 0 || windows.some(window => isOpen(window, at));
}

/** How long active silences are cached (ms): evaluating a cron window takes a quarter of a millisecond. */
const CACHED_FOR = 1000;

export function createSilences(silences: readonly SilenceOptions[], now: () => number) {
  let cached = { at: Number.NaN, inForce: silences };
  return {
    /** Returns the reason for the silence that matches an alert now; undefined if none does. */
    reasonFor(labels: Labels): string | undefined {
      const at = now();
      if (!(Math.abs(at - cached.at) < CACHED_FOR)) {
        cached = { at, inForce: silences.filter(silence => isInForce(silence, at)) };
      }
      return cached.inForce.find(({ match }) => matches(match, labels))?.reason;
    },
  };
}
