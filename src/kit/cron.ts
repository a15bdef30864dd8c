import { Cron } from 'croner';
import { z } from 'zod';
import { Duration } from './duration.ts';

/** The first time after `at` when the expression is due; undefined when it never is. Throws when it is none. */
export function nextDue(cron: string, tz: string, at: number): number | undefined {
  // Without a function it starts no timer.
  return new Cron(cron, { mode: '5-part', timezone: tz }).nextRun(new Date(at))?.getTime();
}

/** Why text is no cron expression that is ever due; undefined when it is one. */
export function faultOfCron(cron: string): string | undefined {
  try {
    // Dates and nicknames would pass, too; other programs do not know them.
    if (cron.trim().split(/\s+/).length === 5) return nextDue(cron, 'UTC', 0) === undefined ? NEVER : undefined;
  } catch {}
  return "must be a cron expression of five fields, such as '0 8 * * 1-5'";
}

const NEVER = 'never comes';

export function isTimeZone(tz: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: tz });
    return true;
  } catch {
    return false;
  }
}

/** A window that opens whenever its cron expression is due by the clocks of `tz`, for `for` milliseconds. */
export const cronWindow = z.strictObject({
  cron: z
    .string()
    .superRefine((cron, context) => {
      const message = faultOfCron(cron);
      if (message) context.addIssue({ code: 'custom', message });
    })
    .describe(
      "When the window opens, as five cron fields: minute, hour, day of month, month, day of week: `'0 8 * * 1-5'`.",
    ),
  for: Duration.describe('How long the window stays open.'),
  tz: z
    .string()
    .refine(isTimeZone, { error: 'must be a time zone such as Europe/Amsterdam' })
    .default('UTC')
    .describe('IANA time zone of `cron`.'),
});

export type CronWindow = z.output<typeof cronWindow>;

/** Whether it is open at `at`. It opens at a moment and lasts real time, whatever the clocks do meanwhile. */
export function isOpen({ cron, tz, for: length }: CronWindow, at: number): boolean {
  return (nextDue(cron, tz, at - length) ?? Infinity) <= at;
}

const MOMENT = z.iso.datetime({ offset: true });

/** A time as configuration value, in milliseconds since the Unix epoch. */
export const moment = z
  .string()
  .refine(text => MOMENT.safeParse(text).success, {
    error: "must be a time with its zone such as '2026-12-20T00:00:00Z'",
    abort: true,
  })
  .transform(text => Date.parse(text));
