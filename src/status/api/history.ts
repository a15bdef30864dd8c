import { z } from 'zod';
import { parseDuration } from '../../kit/duration.ts';
import { Maybe, Num, Time, wholeNumber } from './parts.ts';

const MAX_FAMILIES = 20;
const NAMES = 'must be the name of a metric family and may be repeated';

/** Query parameters of GET /api/v1/accounts/NAME/history. */
export const HistoryQuery = z.object({
  family: z
    .preprocess(
      given => (typeof given === 'string' ? [given] : given),
      z
        .array(z.string().regex(/^[a-zA-Z_][a-zA-Z0-9_]{0,199}$/, { error: NAMES }), { error: NAMES })
        .max(MAX_FAMILIES, { error: `must be given at most ${MAX_FAMILIES} times` }),
    )
    .describe('Name of a metric family. May be repeated.'),
  over: z
    .string()
    .refine(text => (parseDuration(text) ?? 0) > 0, { error: 'must be a duration such as 48h' })
    .default('48h')
    .describe('Length of the period before now.'),
  points: wholeNumber(10, 2880)
    .default(720)
    .describe('Maximum number of points, in addition to one per gap. Surplus points are omitted evenly.'),
});
export type HistoryQuery = z.output<typeof HistoryQuery>;

export const HistoryView = z.object({
  now: Time,
  account: z.string(),
  keptFor: z.string().describe('`store.history.keep`.'),
  times: z.array(Num).describe('Seconds since the Unix epoch, ascending.'),
  series: z.array(
    z.object({
      family: z.string(),
      labels: z.record(z.string(), z.string()),
      values: z.array(Maybe(Num)).describe('One value per time; null if the series had no value.'),
    }),
  ),
});
export type HistoryView = z.output<typeof HistoryView>;
