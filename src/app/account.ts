import { type AccountFacts, type Collector, collectors } from '../collectors/index.ts';
import type { Config } from '../config/schema.ts';
import type { Clock } from '../kit/clock.ts';
import type { Histogram } from '../kit/counter.ts';
import type { Log } from '../kit/log.ts';
import { type SecretSetting, toToken } from '../kit/secret.ts';
import type { Tracer } from '../kit/tracer.ts';
import type { Family, Source } from '../metrics/family.ts';
import { createAccountMeter, ownFamilies, statusSamples } from '../metrics/own.ts';
import type { TraceQueue } from '../model/lifecycle-trace.ts';
import type { AccountStatus } from '../model/status.ts';
import { accountStatus, createSlot, type Slot } from '../scheduler/board.ts';
import { fromStored } from '../scheduler/freshness.ts';
import { createRunner, type RunRound } from '../scheduler/runner.ts';
import type { Store } from '../store/store.ts';
import type { Priority, Reader, Writer } from '../upstream/api.ts';
import { createBudget } from '../upstream/budget.ts';
import { ENDPOINTS } from '../upstream/call.ts';
import { createClient } from '../upstream/client.ts';
import { OUTCOMES } from '../upstream/errors.ts';
import type { LargeBodies } from '../upstream/large-bodies.ts';
import { addressesOf } from '../upstream/options.ts';
import { fileToken, fixedToken, type TokenSource } from '../upstream/token.ts';
import { createWriter } from '../upstream/writer.ts';
import { accountFile, readAccountFile } from './account-file.ts';
import { createUpkeep, openAccountRows } from './account-rows.ts';
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
  /** What waits of an account's traces, where messages are traced. */
  readonly traceQueue: (account: string) => TraceQueue | undefined;
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
  /** Whether the service has taken or refused the token since this process began; before, only what it said earlier is known. */
  isTokenKnown(): boolean;
  /** Puts what was spent of the day's budget, and how fresh the data is, into the store. Rejects with StoreError. */
  save(): Promise<void>;
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
    traceQueue,
    log,
    tracer,
  }: AccountDeps,
): Promise<Account> {
  const { name, token, collect, upstream, retention } = account;
  const queue = traceQueue(name);
  const active = collectors
    .map(collector => ({
      collector,
      options: {
        ...(collector.configKey === null ? { enabled: true } : collect[collector.configKey]),
        backfill,
        traces: queue && { account: name, sampleRatio: config.tracing.lifecycle.sampleRatio, queue },
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
  const rows = await openAccountRows(store, name);
  const { before } = rows;
  const budget = createBudget(account.budget, clock, seconds => meter.budgetWait.inc({}, seconds), before.spent);
  let { tokenRejected } = before;
  let isTokenKnown = false;
  const addresses = addressesOf(account);
  const hosts = new Set([addresses.base, addresses.regional].map(address => new URL(address).host));
  const hostLog = log.child({ host: [...hosts].join(', ') });
  function learnOfToken(isRejected: boolean): void {
    if (isRejected)
      hostLog.error({ account: name }, 'the service refuses the token; nothing is read until it takes one');
    else if (tokenRejected) hostLog.info({ account: name }, 'the service takes the token again');
    tokenRejected = isRejected;
    isTokenKnown = true;
  }
  const dispatcher = dispatchers.for(upstream);
  const clientMeter = { ...meter, seconds: requestSeconds };
  const readerMeter = {
    ...clientMeter,
    requests: {
      inc(labels: { endpoint: string; outcome: string }, by?: number) {
        meter.requests.inc(labels, by);
        if (!isTokenKnown && labels.outcome === 'ok') learnOfToken(false);
      },
    },
  };
  const client = createClient({
    addresses,
    eventsPath: account.paths.events,
    flowControlKeyPath: account.paths.flowControlKey,
    token: tokenSource(token, env),
    budget,
    dispatcher,
    largeBodies,
    timeout: upstream.timeout,
    meter: readerMeter,
    clock,
    random,
    tracer,
    onTokenRejected: learnOfToken,
  });

  const slots: Slot[] = [];
  const rounds: Account['rounds'][number][] = [];
  const facts: Source[] = [];
  const upkeep = createUpkeep({
    account: name,
    slots,
    rows,
    known: () => ({ spent: budget.spent(), tokenRejected }),
    clock,
    log: hostLog,
  });
  for (const { collector, options } of active) {
    const cadences = Object.entries(collector.rounds(options));
    const slot = createSlot(
      {
        account: name,
        collector: collector.name,
        auxiliary: collector.auxiliary,
        restored: fromStored(before.freshness?.[collector.name] ?? {}, clock.now()),
      },
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
      log: hostLog,
      tracer,
    });
    slots.push(slot);
    facts.push(collectorSource(collector, slot));
    for (const [round, { every, requests }] of cadences) {
      rounds.push({
        collector: collector.name,
        round,
        every,
        leastRequests: requests,
        async run(round, signal) {
          await run(round, signal);
          await upkeep.afterRound();
        },
      });
    }
  }
  // From now on it is tried, whatever becomes of this process.
  await upkeep.afterRound();

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
          [
            ownFamilies.tokenRejected,
            tokenRejected === undefined ? [] : [{ labels: {}, value: Number(tokenRejected) }],
          ] as const,
          [ownFamilies.budgetRemaining, [{ labels: {}, value: budget.remaining() }]] as const,
        ].map(([family, samples]) => [family.name, samples]),
      );
    },
  };
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
    isTokenKnown: () => isTokenKnown,
    save: upkeep.save,
    spent: meter.spent,
  };
}
