import { z } from 'zod';
import {
  ACCOUNT_STATES,
  AlertView,
  ChangeView,
  DataState,
  Maybe,
  Num,
  oneOf,
  Problem,
  Ratio,
  State,
  Time,
  wholeNumber,
} from './parts.ts';

/** Query parameters of GET /api/v1/overview and of the page `/`. */
export const OverviewQuery = z.object({
  q: z
    .string()
    .max(200, { error: 'must have at most 200 characters' })
    .default('')
    .describe('Part of an account’s name or label, case-insensitive.'),
  state: oneOf(['any', ...ACCOUNT_STATES])
    .default('any')
    .describe('Only accounts in this state.'),
  page: wholeNumber(1, 100_000).default(1).describe('Number of the page, from 1.'),
  per: wholeNumber(1, 1000).default(100).describe('Accounts per page.'),
});
export type OverviewQuery = z.output<typeof OverviewQuery>;

export const AccountRow = z.object({
  account: z.string(),
  state: State,
  data: DataState.describe('State of its worst collector.'),
  dataAt: Maybe(Time).describe(
    'Start of the last complete read: the earliest among dead letters, events and flow control. Removed dead letters are detected only by complete walks, so up to `rescanEvery` later.',
  ),
  problems: z.int().describe('Number of problems.'),
  worst: Maybe(Problem).describe('The worst problem.'),
  firing: z.int().describe('Number of its firing alerts.'),
  deadLetters: Maybe(Num),
  deadLettersChange: Maybe(ChangeView).describe('Over the last hour.'),
  oldestEntered: Maybe(Time).describe('When the longest-queued dead letter was added.'),
  serviceAheadSeconds: Maybe(Num).describe(
    'The service’s clock minus `now`; null if unknown. `oldestEntered` is by the service’s clock.',
  ),
  delivered: Maybe(Ratio).describe('Share of delivered messages among those delivered or failed in the last hour.'),
  finished: Maybe(ChangeView).describe('Messages that ended in the last hour.'),
  waiting: Maybe(Num).describe('Messages and workflow steps waiting on flow-control keys.'),
  inFlight: Maybe(Num),
  labels: z.record(z.string(), z.string()),
});
export type AccountRow = z.output<typeof AccountRow>;

export const Overview = z.object({
  now: Time,
  version: z.string(),
  state: State.describe('Worst state of all accounts and the agent.'),
  accounts: z.object({ total: z.int(), up: z.int(), byState: z.record(State, z.int()) }),
  deadLetters: Maybe(Num).describe('Sum over all accounts with known numbers.'),
  problems: z
    .array(Problem)
    .describe('The worst 100 problems of all accounts and the agent, worst first, then newest first.'),
  problemsTotal: z.int(),
  alerts: z.array(AlertView).describe('At most 100 firing alerts.'),
  alertsFiring: z.int(),
  matching: z.int().describe('Number of matching accounts.'),
  page: z.int(),
  pages: z.int(),
  rows: z.array(AccountRow).describe('The worst first, then by name.'),
});
export type Overview = z.output<typeof Overview>;
