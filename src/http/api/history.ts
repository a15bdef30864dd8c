import { z } from 'zod';
import { Maybe, Num, Time } from './parts.ts';

/** GET /api/v1/accounts/NAME/history: its query. */
export const HistoryQuery = z.object({
  family: z
    .union([z.string().transform(one => [one]), z.array(z.string())])
    .describe('Names of metric families, given once or more.'),
  over: z.string().default('48h').describe('A duration: how far back.'),
  points: z.coerce
    .number()
    .int()
    .min(10)
    .max(2880)
    .default(720)
    .describe('Points at most: others are left out, evenly.'),
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
      values: z.array(Maybe(Num)).describe('As many as `times`; null: it had none.'),
    }),
  ),
});
export type HistoryView = z.output<typeof HistoryView>;
