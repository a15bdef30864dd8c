import { isOpen } from '../kit/cron.ts';
import type { SilenceOptions } from './options.ts';

type Labels = Readonly<Record<string, string>>;

export type Silences = ReturnType<typeof createSilences>;

/** A label that an alert does not have is empty, as Alertmanager has it. */
const matches = ({ match }: SilenceOptions, labels: Labels) =>
  Object.entries(match).every(([name, values]) => values.includes(labels[name] ?? ''));

export function isInForce({ from, until, windows }: SilenceOptions, at: number): boolean {
  if ((from !== null && at < from) || (until !== null && at >= until)) return false;
  return windows.length === 0 || windows.some(window => isOpen(window, at));
}

/** Milliseconds for which it is remembered which silences hold: a thousand accounts ask, and cron costs. */
const REMEMBERED = 1000;

export function createSilences(silences: readonly SilenceOptions[], now: () => number) {
  let known = { at: Number.NaN, inForce: silences };
  return {
    /** Why an alert with these labels is silenced now; undefined when it is not. */
    reasonFor(labels: Labels): string | undefined {
      if (silences.length === 0) return undefined;
      const at = now();
      if (!(Math.abs(at - known.at) < REMEMBERED)) {
        known = { at, inForce: silences.filter(silence => isInForce(silence, at)) };
      }
      return known.inForce.find(silence => matches(silence, labels))?.reason;
    },
  };
}
