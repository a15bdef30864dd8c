import { z } from 'zod';
import { DataState, Maybe, Num, Problem, Time } from './parts.ts';

/** Worst first. */
export const VERDICTS = ['problems', 'unknown', 'healthy'] as const;
export const HealthVerdict = z
  .enum(VERDICTS)
  .describe(
    '`problems`: a check of severity warning or critical has found a problem. `unknown`: some data is stale, incomplete or not read, and the rest is healthy.',
  );
export type HealthVerdict = z.output<typeof HealthVerdict>;

export const AccountReport = z.object({
  account: z.string(),
  verdict: HealthVerdict,
  problems: z.array(Problem).describe('Worst first, then newest first.'),
  unknown: z
    .array(
      z.object({
        collector: Maybe(z.string()).describe('Null: no data at all.'),
        data: DataState,
        dataAt: Maybe(Time).describe('Start of the last complete read.'),
        failure: Maybe(z.string()).describe('Failure of the last attempt.'),
        retryAt: Maybe(Time).describe(
          'Start of the next attempt after a failed one; null while an attempt is in flight.',
        ),
      }),
    )
    .describe('Data that is not current and complete.'),
  dataAt: Maybe(Time).describe('Start of the oldest last complete read.'),
  deadLetters: Maybe(Num),
});
export type AccountReport = z.output<typeof AccountReport>;

/** GET /api/v1/report */
export const Report = z.object({
  now: Time,
  version: z.string(),
  externalUrl: Maybe(z.string()).describe('`server.externalUrl`, the base of links.'),
  verdict: HealthVerdict.describe('The worst verdict of the accounts and of the agent.'),
  agent: z.object({ verdict: HealthVerdict, problems: z.array(Problem) }),
  accounts: z.array(AccountReport),
});
export type Report = z.output<typeof Report>;
