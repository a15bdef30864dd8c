import { Command } from 'commander';
import type { Account } from '../agent/account.ts';
import type { PartsDeps } from '../agent/base.ts';
import { minimumSpan } from '../auto-cancel/options.ts';
import { rulesOf } from '../auto-cancel/tracking.ts';
import type { ShownFacts } from '../collectors/index.ts';
import type { LoadedConfig } from '../config/load.ts';
import type { AccountSettings, Config } from '../config/schema.ts';
import { withClosing } from '../kit/closing.ts';
import { DAY, formatDuration } from '../kit/duration.ts';
import { percent, printable } from '../kit/text.ts';
import { createShownSources } from '../metrics/shown-sources.ts';
import { roundName } from '../model/status.ts';
import { JITTER, MEAN_INTERVAL } from '../scheduler/loop.ts';
import { maxForReading, PUBLIC_PLANS, PUBLIC_PLANS_AS_OF } from '../upstream/options.ts';
import { configOption } from './config-option.ts';
import { loadAccounts, openInMemory, realDeps } from './read-alone.ts';
import { toTable } from './table.ts';
import { stopSignal } from './until-stopped.ts';

const most = (values: readonly number[]) => (values.length === 0 ? undefined : Math.max(...values));

/** Derives the requirements for a plan from the configuration of an account and its data. Undefined values are unknown. */
export function needsOf(
  { name, collect, objectives }: AccountSettings,
  config: Config,
  { flow_control: keys, queues, schedules }: ShownFacts,
) {
  const rules = rulesOf(config, name);
  const { dlq, events } = collect;
  const limits = keys?.now?.shown.flatMap(({ parallelismLimit }) => parallelismLimit ?? []);
  return {
    dlq: dlq.enabled ? most([objectives.dlqMaxAge, ...rules.map(rule => minimumSpan(rule).ms)]) : undefined,
    events: events.enabled
      ? most([events.lateSweep, ...rules.flatMap(({ stuckWhen }) => stuckWhen.idleFor ?? [])])
      : undefined,
    global_parallelism: limits && most(limits),
    queues: queues?.now && queues.now.shown.length + queues.now.beyondCap,
    schedules: schedules?.now && schedules.now.listed.length + schedules.now.beyondCap,
  };
}

const whole = (value: number) => Math.ceil(value).toLocaleString('en-US');

/** Compares the needs of an account with the published limits of the service's plans. */
export function publicPlans(needs: ReturnType<typeof needsOf>, callsPerDay: number): string {
  const plans = Object.values(PUBLIC_PLANS);
  type Plan = (typeof plans)[number];
  function row(
    title: string,
    need: number | undefined,
    limitOf: (plan: Plan) => number | undefined,
    format = whole,
    unit = '',
  ) {
    const cells = plans.map(plan => {
      const limit = limitOf(plan);
      if (limit === undefined) return 'unlimited';
      return need !== undefined && need > limit ? `${format(limit)} (too low)` : format(limit);
    });
    return [title, need === undefined ? 'unknown' : format(need) + unit, ...cells];
  }
  const limitRow = (title: string, limit: 'global_parallelism' | 'queues' | 'schedules') =>
    row(title, needs[limit], plan => plan.limits[limit]);
  const columns = ['needed', ...plans.map(({ title }) => title)];
  const rows = [
    row('messages a day', callsPerDay, plan => plan.limits.requests_per_day, whole, ' calls'),
    row('dead letters kept for', needs.dlq, plan => plan.retention.dlq, formatDuration),
    row('events kept for', needs.events, plan => plan.retention.events, formatDuration),
    limitRow('parallelism', 'global_parallelism'),
    limitRow('queues', 'queues'),
    limitRow('schedules', 'schedules'),
  ];
  return [
    `Public plans on ${PUBLIC_PLANS_AS_OF}; whether the service counts calls as messages is not documented:`,
    toTable(['limit', ...columns], rows, columns),
  ].join('\n');
}

/** Measures one round: its requests, its bytes, and its duration with the configured budget. */
async function measure(
  account: Account,
  { collector, round, every, leastRequests, why, run, retry }: Account['rounds'][number],
  { clock }: PartsDeps,
  signal: AbortSignal,
) {
  const before = account.spent();
  const start = clock.monotonic();
  await run(signal);
  const after = account.spent();
  // A round without work sends fewer requests than usual.
  const requests = Math.max(leastRequests, after.requests - before.requests);
  const bytes = after.bytes - before.bytes;
  // A round runs less often if the service lacks its endpoint.
  const rounds = DAY / Math.max(every * MEAN_INTERVAL, retry() ?? 0);
  return {
    collector,
    round,
    every,
    requests,
    why,
    bytes,
    seconds: (clock.monotonic() - start) / 1000,
    requestsPerDay: rounds * requests,
    bytesPerDay: rounds * bytes,
  };
}

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

/** Runs every round once. Stops if the service rejects the token, and returns the reason. */
async function learn(account: Account, signal: AbortSignal): Promise<string | undefined> {
  // Run rounds sequentially, to count the requests of each.
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
  config: Config,
  deps: PartsDeps,
  signal: AbortSignal,
) {
  const { budget } = settings;
  const refused = await learn(account, signal);
  const rounds: Awaited<ReturnType<typeof measure>>[] = [];
  if (refused === undefined)
    for (const round of account.rounds) rounds.push(await measure(account, round, deps, signal));
  signal.throwIfAborted();
  const failed = refused === undefined ? failuresOf(account) : [];
  const isFailed = ({ collector, round }: (typeof rounds)[number]) =>
    failed.some(each => each.collector === collector && each.round === round);
  return {
    account: account.name,
    rounds: rounds.filter(round => !isFailed(round)),
    allowedPerDay: Math.min(maxForReading(budget), (budget.requestsPerSecond * DAY) / 1000),
    /** Requests per day that the account's plan allows, if known. */
    planPerDay: account.limits().requests_per_day,
    publicPlan: settings.plan === null ? undefined : PUBLIC_PLANS[settings.plan],
    needs: needsOf(settings, config, account.shown()),
    series: seriesOf(account, settings),
    failures:
      refused === undefined
        ? [...new Set(failed.map(({ message, ...round }) => `${roundName(round)}: ${message}`))]
        : [refused],
  };
}

/** Measures the cost of a configuration from the second run of each round, which finds no new data. Stores nothing. */
export function planCosts(loaded: LoadedConfig, deps: PartsDeps, signal: AbortSignal) {
  return withClosing(async closing => {
    const { config } = loaded;
    // Ignore the daily budget: if it is too small, it would delay the measurement.
    const unlimited = config.accounts.map(account => ({
      ...account,
      budget: { ...account.budget, requestsPerDay: Number.MAX_SAFE_INTEGER },
    }));
    const accounts = await openInMemory({ ...loaded, config: { ...config, accounts: unlimited } }, deps, closing);
    return Promise.all(
      accounts.map((account, index) =>
        planAccount(account, config.accounts[index] as AccountSettings, config, deps, signal),
      ),
    );
  });
}

type AccountPlan = Awaited<ReturnType<typeof planAccount>>;

const megabytes = (bytes: number) => (bytes / 1e6).toFixed(1);

const sum = (rounds: AccountPlan['rounds'], of: 'requestsPerDay' | 'bytesPerDay') =>
  rounds.reduce((sum, round) => sum + round[of], 0);

/** Formats a comparison such as `16,068 calls a day are 3.2 % of the 500,000 that …`. */
function share(perDay: number, most: number, whose: string, over: string): string {
  return `${perDay > most ? `over: ${whole(perDay)}` : whole(perDay)} calls a day are ${percent(perDay / most)} of the ${whole(most)} that ${whose}${perDay > most ? `: ${over}` : ''}`;
}

function toText(plan: AccountPlan): string {
  const { account, rounds, allowedPerDay, planPerDay, publicPlan, needs, series, failures } = plan;
  const publicPerDay = publicPlan?.limits.requests_per_day;
  const asking = rounds.filter(({ requests }) => requests > 0);
  if (asking.length === 0) return printable(`${account}: not measured: ${failures.join('; ')}`);
  const rows = asking.map(({ every, requests, seconds, requestsPerDay, bytesPerDay, ...round }) => [
    roundName(round),
    formatDuration(every),
    String(requests),
    `${seconds.toFixed(1)} s`,
    whole(requestsPerDay / 24),
    whole(requestsPerDay),
    megabytes(bytesPerDay),
  ]);
  const perDay = sum(rounds, 'requestsPerDay');
  const total = failures.length > 0 ? 'total, at least' : 'total';
  rows.push([total, '', '', '', whole(perDay / 24), whole(perDay), megabytes(sum(rounds, 'bytesPerDay'))]);
  const columns = ['every', 'calls', 'takes', 'calls an hour', 'calls a day', 'MB a day'];
  return [
    `${account}: ${whole(series)} series`,
    toTable(['round', ...columns], rows, columns),
    `Rounds start up to ${percent(JITTER)} early, at random. A round may send several calls:`,
    ...asking.flatMap(({ why, ...round }) => (why === undefined ? [] : [`  ${roundName(round)}: ${why}`])),
    publicPlans(needs, perDay),
    share(perDay, allowedPerDay, 'the budget allows for reading', 'rounds wait, and data is older than configured'),
    ...(planPerDay === undefined
      ? []
      : [share(perDay, planPerDay, 'the account’s plan allows for everything', 'reading alone exceeds this limit')]),
    ...(publicPerDay === undefined
      ? []
      : [
          share(
            perDay,
            publicPerDay,
            `the public plan ${publicPlan?.title} allows`,
            'too many if the service counts calls as messages',
          ),
        ]),
    ...failures.map(failure => printable(`not measured: ${failure}`)),
  ].join('\n');
}

export function planCommand(): Command {
  return new Command('plan')
    .description(
      'read all data twice, as the agent does, and estimate API calls, bytes and series per account (assuming no new messages); exit 1 if an account fails',
    )
    .addOption(configOption())
    .action(async (options: { config: string }, command: Command) => {
      const plans = await planCosts(loadAccounts(command, options), realDeps, stopSignal());
      process.stdout.write(`${plans.map(toText).join('\n\n')}\n`);
      const failed = plans.filter(({ failures }) => failures.length > 0).map(({ account }) => account);
      if (failed.length > 0) throw new Error(`not complete: ${failed.join(', ')}`);
    });
}
