import { z } from 'zod';
import {
  Alert,
  Change,
  DataState,
  FROM_REPLICA,
  Maybe,
  Num,
  oneOf,
  Problem,
  Ratio,
  STATES,
  State,
  Time,
  wholeNumber,
} from './parts.ts';

export const SORTS = ['attention', 'account', 'deadLetters', 'growth', 'oldest', 'delivered', 'waiting'] as const;

/** GET /api/v1/overview: its query. Also that of the page `/`. */
export const OverviewQuery = z.object({
  q: z
    .string()
    .max(200, { error: 'must have at most 200 characters' })
    .default('')
    .describe('Part of the account’s name or of one of its labels, in any case.'),
  state: oneOf(['any', ...STATES])
    .default('any')
    .describe('Only accounts in this state.'),
  sort: oneOf(SORTS)
    .default('attention')
    .describe('`attention`: the worst first. Others: the largest, oldest or lowest first; `account`: by name.'),
  page: wholeNumber(1, 100_000).default(1).describe('From 1 on.'),
  per: wholeNumber(1, 1000).default(100).describe('Accounts on a page.'),
});
export type OverviewQuery = z.output<typeof OverviewQuery>;

export const AccountRow = z.object({
  account: z.string(),
  state: State,
  data: DataState.describe('Of its worst collector.'),
  dataAt: Maybe(Time).describe(
    'When the last reading began that keeps what is shown current; of dead letters, events and flow control, that of the one read longest ago. What has left the dead letters is seen by complete walks alone, and so up to `rescanEvery` later.',
  ),
  problems: z.int().describe('How many it has.'),
  worst: Maybe(Problem).describe('The worst of them.'),
  firing: z.int().describe('Alerts of the agent that fire for it.'),
  deadLetters: Maybe(Num),
  deadLettersChange: Maybe(Change).describe('Over the last hour.'),
  oldestEntered: Maybe(Time).describe('Since when the longest-queued dead letter is there.'),
  delivered: Maybe(Ratio).describe('Share of the messages that ended in the last hour and were delivered.'),
  finished: Maybe(Change).describe('Messages that ended in the last hour.'),
  waiting: Maybe(Num).describe('Messages and steps that wait on flow-control keys.'),
  inFlight: Maybe(Num),
  labels: z.record(z.string(), z.string()),
  ...FROM_REPLICA,
});
export type AccountRow = z.output<typeof AccountRow>;

export const Overview = z.object({
  now: Time,
  version: z.string(),
  state: State.describe('The worst of all accounts and of the agent.'),
  replicas: Maybe(z.int()).describe('That run, this one included. Null: the store is not shared.'),
  accounts: z.object({ total: z.int(), up: z.int(), byState: z.record(State, z.int()) }),
  deadLetters: Maybe(Num).describe('Of all accounts of which it is known.'),
  problems: z.array(Problem).describe('The worst 100 of all accounts and of the agent, the worst first.'),
  problemsTotal: z.int(),
  alerts: z.array(Alert).describe('That fire: at most 100.'),
  alertsFiring: z.int(),
  matching: z.int().describe('Accounts that the query matches.'),
  page: z.int(),
  pages: z.int(),
  rows: z.array(AccountRow),
});
export type Overview = z.output<typeof Overview>;
