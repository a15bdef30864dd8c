import { type AccountFacts, type Collector, collectors } from '../collectors/index.ts';
import type { Config } from '../config/schema.ts';
import type { Clock } from '../kit/clock.ts';
import type { Histogram } from '../kit/counter.ts';
import type { Log } from '../kit/log.ts';
import type { Tracer } from '../kit/tracer.ts';
import type { Family, Source } from '../metrics/family.ts';
import { createAccountMeter, ownFamilies, statusSamples } from '../metrics/own.ts';
import type { AccountStatus } from '../model/status.ts';
import { accountStatus, createSlot, type Slot } from '../scheduler/board.ts';
import { createRunner, type RunRound } from '../scheduler/runner.ts';
import type { Store } from '../store/store.ts';
import type { Priority, Reader, Writer } from '../upstream/api.ts';
import { createBudget, type Spent } from '../upstream/budget.ts';
import { ENDPOINTS } from '../upstream/call.ts';
import { createClient } from '../upstream/client.ts';
import { OUTCOMES } from '../upstream/errors.ts';
import type { LargeBodies } from '../upstream/large-bodies.ts';
import { addressesOf, type SecretSetting } from '../upstream/options.ts';
import { fileToken, fixedToken, type TokenSource, toToken } from '../upstream/token.ts';
import { createWriter } from '../upstream/writer.ts';
import { accountFile, readAccountFile } from './account-file.ts';
import { callbackOptions, rulesOf } from './callbacks.ts';
import type { Dispatchers } from './dispatchers.ts';

export interface AccountDeps {
  readonly config: Config;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly dispatchers: Dispatchers;
  readonly largeBodies: LargeBodies;
  readonly accountInfo: Family;
  readonly requestSeconds: Histogram<'endpoint'>;
  readonly store: Store;
  readonly clock: Clock;
  readonly random: () => number;
  readonly backfill: number | undefined;
  /** Whether the lives of messages become traces. */
  readonly traceMessages: boolean;
  readonly log: Log;
  readonly tracer: Tracer;
}

/** Everything that belongs to one account: what to run, and what it shows. */
export interface Account {
  readonly name: string;
  readonly rounds: readonly {
    readonly collector: string;
    readonly round: string;
    readonly every: number;
    /** Requests of a round that finds nothing new. */
    readonly leastRequests: number;
    readonly run: RunRound;
  }[];
  /** What the service said. */
  readonly facts: readonly Source[];
  /** That, and what the agent says of the account. */
  readonly sources: readonly Source[];
  status(): AccountStatus;
  /** What the board has of a collector; undefined while it is not enabled. */
  slot(collector: string): Slot | undefined;
  /** Reads, on the account's budget. */
  at(priority: Priority): Reader;
  /** Cancels, on the same budget, with the token for acting. Only for whoever keeps a journal. */
  createWriter(): Writer;
  /** Puts what was spent of the day's budget into the store. */
  saveSpent(): Promise<void>;
  /** Requests that have ended, and the bytes of their answers. */
  spent(): { readonly requests: number; readonly bytes: number };
}

export function tokenSource(setting: SecretSetting, env: AccountDeps['env']): TokenSource {
  if ('file' in setting) return fileToken(setting.file);
  if ('literal' in setting) return fixedToken(setting.literal);
  const token = toToken(env[setting.env] ?? '');
  if (!token) throw new Error(`the environment variable ${setting.env} holds no token`);
  return fixedToken(token);
}

/** Key of the row that holds what was spent of a day's budget. */
const SPENT = 'budget/spent';

async function readSpent(store: Store, account: string): Promise<Spent | undefined> {
  const row = (await store.scan(account, SPENT)).get(SPENT);
  return row === undefined ? undefined : (JSON.parse(row) as Spent);
}

/** A collector's facts as the exposition reads them: gauges are gone while they are too old, what only rises stays. */
function collectorSource(collector: Collector, slot: Slot): Source {
  const families = Object.entries(collector.families);
  return {
    account: slot.account,
    families: families.map(([, family]) => family),
    revision: () => slot.visible(),
    samples() {
      const { now, committed } = slot.visible();
      const samplesOf = (facts: unknown) => (facts === undefined ? {} : collector.samples(facts));
      const gauges = samplesOf(now);
      const others = now === committed ? gauges : samplesOf(committed);
      return new Map(
        families.map(([key, family]) => [family.name, (family.type === 'gauge' ? gauges : others)[key] ?? []]),
      );
    },
  };
}

export async function createAccount(
  account: Config['accounts'][number],
  {
    config,
    env,
    dispatchers,
    largeBodies,
    accountInfo,
    requestSeconds,
    store,
    clock,
    random,
    backfill,
    traceMessages,
    log,
    tracer,
  }: AccountDeps,
): Promise<Account> {
  const { name, token, collect, upstream, retention } = account;
  const active = collectors
    .map(collector => ({
      collector,
      options: {
        ...(collector.configKey === null ? { enabled: true } : collect[collector.configKey]),
        backfill,
        traces: traceMessages ? { account: name, sampleRatio: config.tracing.lifecycle.sampleRatio } : undefined,
        dlqRetention: retention.dlq ?? undefined,
        callbacks: callbackOptions(
          rulesOf(config, name),
          (collect.dlq as unknown as { rescanEvery: number }).rescanEvery,
          clock,
        ),
        recorded: () => readAccountFile(accountFile(config.store, name)),
      } as { enabled: boolean },
    }))
    .filter(({ options }) => options.enabled);
  const meter = createAccountMeter({
    endpoints: ENDPOINTS,
    outcomes: OUTCOMES,
    collectors: active.filter(({ collector }) => collector.configKey !== null).map(({ collector }) => collector.name),
  });
  const spentBefore = await readSpent(store, name);
  const budget = createBudget(account.budget, clock, seconds => meter.budgetWait.inc({}, seconds), spentBefore);
  let tokenRejected = false;
  const addresses = addressesOf(account);
  const dispatcher = dispatchers.for(upstream);
  const clientMeter = { ...meter, seconds: requestSeconds };
  const client = createClient({
    addresses,
    eventsPath: account.paths.events,
    flowControlKeyPath: account.paths.flowControlKey,
    token: tokenSource(token, env),
    budget,
    dispatcher,
    largeBodies,
    timeout: upstream.timeout,
    meter: clientMeter,
    clock,
    random,
    tracer,
    onTokenRejected(rejected) {
      tokenRejected = rejected;
      if (rejected) log.error({ account: name }, 'the service refuses the token; nothing is read until it takes one');
      else log.info({ account: name }, 'the service takes the token again');
    },
  });

  const slots: Slot[] = [];
  const rounds: Account['rounds'][number][] = [];
  const facts: Source[] = [];
  for (const { collector, options } of active) {
    const cadences = Object.entries(collector.rounds(options));
    const slot = createSlot(
      { account: name, collector: collector.name, auxiliary: collector.auxiliary },
      Object.fromEntries(cadences),
      config.staleness,
      clock,
    );
    const run = await createRunner({
      observer: {
        name: collector.name,
        restore: rows => collector.restore(rows, options),
        recall: memory => collector.recall?.(memory, options),
        observe: step => {
          const api = client.at(collector.rounds(options)[step.round]?.priority ?? 'background');
          return collector.observe({ api, options, ...step });
        },
      },
      slot,
      store,
      clock,
      log,
      tracer,
    });
    slots.push(slot);
    facts.push(collectorSource(collector, slot));
    for (const [round, { every, requests }] of cadences) {
      rounds.push({ collector: collector.name, round, every, leastRequests: requests, run });
    }
  }

  const status = () => accountStatus(name, slots);
  const accountSlot = slots.find(({ collector }) => collector === 'account');
  const recorded = () => (accountSlot?.visible().now as AccountFacts | undefined)?.record;
  const own: Source = {
    account: name,
    families: [...Object.values(ownFamilies), accountInfo],
    // Freshness changes with time alone, so what is shown of it is part of the identity.
    revision: () =>
      `${meter.revision()} ${tokenRejected} ${budget.remaining()} ${recorded()?.resetAt} ${JSON.stringify(status())}`,
    samples() {
      const { plan, state, dlqRetentionSeconds } = recorded() ?? {};
      const retentionSeconds = retention.dlq === null ? dlqRetentionSeconds : retention.dlq / 1000;
      return new Map(
        [
          ...statusSamples(status()),
          ...meter.samples(),
          [accountInfo, [{ labels: { plan, state, ...account.labels }, value: 1 }]] as const,
          [
            ownFamilies.dlqRetention,
            retentionSeconds === undefined ? [] : [{ labels: {}, value: retentionSeconds }],
          ] as const,
          [ownFamilies.tokenRejected, [{ labels: {}, value: Number(tokenRejected) }]] as const,
          [ownFamilies.budgetRemaining, [{ labels: {}, value: budget.remaining() }]] as const,
        ].map(([family, samples]) => [family.name, samples]),
      );
    },
  };
  let saved = JSON.stringify(spentBefore);
  async function saveSpent(): Promise<void> {
    const spent = JSON.stringify(budget.spent());
    if (spent === saved) return;
    await store.commit(name, [{ key: SPENT, value: spent }]);
    saved = spent;
  }
  return {
    name,
    rounds,
    facts,
    sources: [...facts, own],
    status,
    slot: collector => slots.find(each => each.collector === collector),
    at: client.at,
    createWriter: () =>
      createWriter({
        addresses,
        token: tokenSource(account.actionToken ?? token, env),
        budget,
        dispatcher,
        timeout: upstream.timeout,
        meter: clientMeter,
        clock,
        tracer,
      }),
    saveSpent,
    spent: meter.spent,
  };
}
