import type { Account } from '../agent/account.ts';
import type { AccountSettings } from '../agent/account-client.ts';
import { openAccounts, type PartsDeps } from '../agent/parts.ts';
import { createShownSources } from '../agent/shown-sources.ts';
import type { LoadedConfig } from '../config/load.ts';
import { withClosing } from '../kit/closing.ts';
import { MEAN_INTERVAL } from '../scheduler/loop.ts';
import { mostForReading } from '../upstream/options.ts';

/** What one round costs each time, when nothing is new. */
export interface RoundCost {
  readonly collector: string;
  readonly round: string;
  /** Milliseconds between two starts, as configured. */
  readonly every: number;
  readonly requests: number;
  /** Bytes of answers as they come over the wire. */
  readonly bytes: number;
  /** How long it takes within the budget. */
  readonly seconds: number;
  readonly requestsPerDay: number;
  readonly bytesPerDay: number;
}

export interface AccountPlan {
  readonly account: string;
  readonly rounds: readonly RoundCost[];
  /** What the budget allows for reading in a day. */
  readonly allowedPerDay: number;
  /** Requests in a day that the account's plan allows, where that is known. */
  readonly planPerDay: number | undefined;
  /** Series on /metrics. */
  readonly series: number;
  /** Why it can't be said, each reason once; the rounds are then those that could be measured. */
  readonly failures: readonly string[];
}

const DAY = 86_400_000;

/** Runs one round and gives what it cost. */
async function measure(
  account: Account,
  { collector, round, every, leastRequests, perDay, run }: Account['rounds'][number],
  { clock }: PartsDeps,
  signal: AbortSignal,
): Promise<RoundCost> {
  const before = account.spent();
  const start = clock.monotonic();
  await run(signal);
  const after = account.spent();
  // Some rounds have nothing to do yet, and will have.
  const requests = Math.max(leastRequests, after.requests - before.requests);
  const bytes = after.bytes - before.bytes;
  const rounds = DAY / (every * MEAN_INTERVAL);
  const day = perDay?.({ requests, bytes }, rounds) ?? { requests: rounds * requests, bytes: rounds * bytes };
  return {
    collector,
    round,
    every,
    requests,
    bytes,
    seconds: (clock.monotonic() - start) / 1000,
    requestsPerDay: day.requests,
    bytesPerDay: day.bytes,
  };
}

/** Rounds whose last attempt failed, with why. */
function failuresOf(account: Account) {
  return account
    .status()
    .collectors.flatMap(({ collector, rounds }) =>
      rounds.flatMap(({ round, failure }) => (failure ? [{ collector, round, ...failure }] : [])),
    );
}

const seriesOf = ({ sources }: Account, settings: AccountSettings) =>
  createShownSources()(sources, [settings]).reduce(
    (sum, source) => sum + [...source.samples().values()].reduce((sum, samples) => sum + samples.length, 0),
    0,
  );

/** Runs every round once. Gives why nothing more is worth a request, as soon as that is known. */
async function learn(account: Account, signal: AbortSignal): Promise<string | undefined> {
  // In order, so that each request is some round's.
  for (const { run } of account.rounds) {
    await run(signal);
    const refused = failuresOf(account).find(({ reason }) => reason === 'unauthorized');
    if (refused) return refused.message;
  }
  return undefined;
}

async function planAccount(
  account: Account,
  settings: AccountSettings,
  deps: PlanDeps,
  signal: AbortSignal,
): Promise<AccountPlan> {
  const { budget } = settings;
  const refused = await learn(account, signal);
  const rounds: RoundCost[] = [];
  if (refused !== undefined) deps.onRefused(account.name, refused);
  else for (const round of account.rounds) rounds.push(await measure(account, round, deps, signal));
  signal.throwIfAborted();
  const failed = refused === undefined ? failuresOf(account) : [];
  const isFailed = ({ collector, round }: RoundCost) =>
    failed.some(each => each.collector === collector && each.round === round);
  return {
    account: account.name,
    rounds: rounds.filter(round => !isFailed(round)),
    allowedPerDay: Math.min(mostForReading(budget), (budget.requestsPerSecond * DAY) / 1000),
    planPerDay: account.limits().requests_per_day,
    series: seriesOf(account, settings),
    failures:
      refused === undefined
        ? [...new Set(failed.map(({ collector, round, message }) => `${collector} ${round}: ${message}`))]
        : [refused],
  };
}

export interface PlanDeps extends PartsDeps {
  /** Called at once for an account without a token that the service accepts: it is not measured. */
  onRefused(account: string, message: string): void;
}

/**
 * What a configuration will cost, measured: every round is run twice, the first time to learn, the second to see what it
 * costs when nothing is new. Nothing is kept.
 */
export function planCosts(loaded: LoadedConfig, deps: PlanDeps, signal: AbortSignal): Promise<AccountPlan[]> {
  return withClosing(async closing => {
    const config = { ...loaded.config, store: { ...loaded.config.store, kind: 'memory' as const } };
    const accounts = await openAccounts({ ...loaded, config }, deps, closing);
    return Promise.all(
      accounts.map((account, index) =>
        planAccount(account, config.accounts[index] as (typeof config.accounts)[number], deps, signal),
      ),
    );
  });
}
