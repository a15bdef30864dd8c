import { z } from 'zod';
import { CHECK_KINDS, CHECK_SEVERITIES } from '../../model/check-kind.ts';
import { DATA_STATES } from '../../model/status.ts';

/** Types shared by several responses. A null number or time is unknown: never read, or too old. */

export const Time = z.iso.datetime().describe('ISO 8601, UTC');
export const Maybe = <T extends z.ZodType>(type: T) => type.nullable();
export const Num = z.number();
export const Seconds = z.number().describe('Seconds.');
/** A ratio from 0 to 1. */
export const Ratio = z.number().min(0).max(1);

export const AccountName = z.string().regex(/^[\w-]{1,64}$/, { error: 'must be the name of an account' });

export function wholeNumber(min: number, max: number) {
  const error = `must be a whole number from ${min} to ${max}`;
  return z.coerce.number({ error }).int({ error }).min(min, { error }).max(max, { error });
}

export const oneOf = <const T extends readonly string[]>(words: T) =>
  z.enum(words, { error: `must be one of ${words.join(', ')}` });

export const PROBLEM_KINDS = [...CHECK_KINDS, 'not_shown'] as const;

export const Problem = z.object({
  account: Maybe(z.string()).describe('Null for problems of the agent itself.'),
  kind: z.enum(PROBLEM_KINDS),
  severity: z.enum(CHECK_SEVERITIES),
  subject: Maybe(z.string()).describe('Affected key, schedule, breaker or destination; null for kinds without one.'),
  since: Maybe(Time).describe('Start of the problem, if known.'),
  text: z.string().describe('One sentence with numbers.'),
  deadLetterKind: z.string().optional().describe('Id of the kind of dead letters that the text names.'),
  runbook: Maybe(z.string()).describe('Name of the runbook: docs/runbooks/NAME.md.'),
});
export type Problem = z.output<typeof Problem>;

/** States of an account. `unknown`: before the first read. */
export const ACCOUNT_STATES = ['critical', 'warning', 'unknown', 'ok'] as const;
export const State = z.enum(ACCOUNT_STATES);
export type State = z.output<typeof State>;

export const DataState = z.enum(DATA_STATES);
export type DataState = z.output<typeof DataState>;

export const AlertView = z.object({
  state: z.enum(['pending', 'firing', 'resolved']),
  labels: z.record(z.string(), z.string()),
  annotations: z.record(z.string(), z.string()),
  value: Num,
  silencedBy: z.string().optional(),
  startsAt: Time.optional(),
  endsAt: Time.optional(),
});
export type AlertView = z.output<typeof AlertView>;

/** A change over a window. The window is shorter than requested if the history starts within it. */
export const ChangeView = z.object({ by: Num, overSeconds: Seconds });
