import { Cron } from 'croner';
import { z } from 'zod';
import { Duration } from './duration.ts';

/** Parses five fields. Starts no timer, because no callback is passed. UTC needs no time zone data, which takes 8 MB. */
const parseCron = (cron: string, tz: string) =>
  new Cron(cron, { mode: '5-part', ...(tz === 'UTC' ? { utcOffset: 0 } : { timezone: tz }) });

/** Returns the first due time after `at`; undefined if never. Throws for an invalid expression. */
function nextDue(cron: string, tz: string, at: number): number | undefined {
  return parseCron(cron, tz).nextRun(new Date(at))?.getTime();
}

/** Whether `work` returns true and does not throw. */
function succeeds(work: () => boolean): boolean {
  try {
    return work();
  } catch {
    return false;
  }
}

export const CronText = z.string().refine(
  // Croner also accepts dates and nicknames, which other programs do not support.
  cron => cron.trim().split(/\s+/).length === 5 && succeeds(() => nextDue(cron, 'UTC', 0) !== undefined),
  { error: "must be a cron expression of five fields with an occurrence, such as '0 8 * * 1-5'" },
);

export const TimeZone = z
  .string()
  .refine(timeZone => succeeds(() => Boolean(new Intl.DateTimeFormat('en', { timeZone }))), {
    error: 'must be a time zone such as Europe/Amsterdam',
  })
  .default('UTC');

export const cronWindow = z.strictObject({
  cron: CronText.describe("When the window opens, as five cron fields: `'0 8 * * 1-5'`."),
  for: Duration.describe('How long the window stays open.'),
  tz: TimeZone.describe('IANA time zone of `cron`.'),
});

/** Returns whether a window is open. Its length is elapsed time, unaffected by daylight saving time. */
export function isOpen({ cron, tz, for: length }: z.output<typeof cronWindow>, at: number): boolean {
  return (nextDue(cron, tz, at - length) ?? Infinity) <= at;
}

const MOMENT = z.iso.datetime({ offset: true });

/** Parses a time with a zone to ms since the Unix epoch. */
export const timeWithZone = z
  .string()
  .refine(text => MOMENT.safeParse(text).success, {
    error: "must be a time with its zone such as '2026-12-20T00:00:00Z'",
    abort: true,
  })
  .transform(text => Date.parse(text));

/** An occurrence of a cron expression. Times are in ms since the Unix epoch. */
export interface Occurrence {
  readonly at: number;
  /** Second occurrence of the same local time if clocks are set back; otherwise equal to `at`. */
  readonly again: number;
}

/** Maximum time by which clocks are set back (ms). One hour is usual. */
const MAX_SET_BACK = 3 * 3_600_000;

/** Returns a function that finds the offset of a time zone from UTC at a given time (ms). */
function createOffset(tz: string): (at: number) => number {
  if (tz === 'UTC') return () => 0;
  const format = new Intl.DateTimeFormat('en', { timeZone: tz, timeZoneName: 'longOffset' });
  return at => {
    const [, sign, hours, minutes] = /GMT([+-])(\d\d):(\d\d)/.exec(format.format(at)) ?? [];
    return sign === undefined ? 0 : Number(`${sign}1`) * (Number(hours) * 60 + Number(minutes)) * 60_000;
  };
}

/** Returns a function that finds the next occurrence. Skipped local times do not occur, and repeated ones occur once. */
export function createOccurrences(cron: string, tz: string): (after: number) => Occurrence | undefined {
  const parsed = parseCron(cron, tz);
  const offset = createOffset(tz);
  const next = (after: number) => parsed.nextRun(new Date(after)) ?? undefined;

  function isRepeated(at: number): boolean {
    const setBack = offset(at - MAX_SET_BACK) - offset(at);
    return setBack > 0 && offset(at - setBack) === offset(at) + setBack;
  }

  function repetition(at: number): number | undefined {
    const setBack = offset(at) - offset(at + MAX_SET_BACK);
    return setBack > 0 && offset(at + setBack) === offset(at) - setBack ? at + setBack : undefined;
  }

  return after => {
    let due = next(after);
    // For a skipped local time, croner returns the first moment after it.
    while (due && (!parsed.match(due) || isRepeated(due.getTime()))) due = next(due.getTime());
    if (!due) return undefined;
    const at = due.getTime();
    return { at, again: repetition(at) ?? at };
  };
}
