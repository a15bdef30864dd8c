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

/** Matches alerts before it evaluates times, because a cron window takes a quarter of a millisecond. */
export const createSilences = (silences: readonly SilenceOptions[], now: () => number) => ({
  /** Returns the reason for the silence that matches an alert now; undefined if none does. */
  reasonFor: (labels: Labels): string | undefined =>
    silences.find(silence => matches(silence.match, labels) && isInForce(silence, now()))?.reason,
});
