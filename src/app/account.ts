import type { Dispatcher } from 'undici';
import { type Collector, collectors } from '../collectors/index.ts';
import type { Config } from '../config/schema.ts';
import type { Clock } from '../kit/clock.ts';
import type { Histogram } from '../kit/counter.ts';
import type { Log } from '../kit/log.ts';
import type { Tracer } from '../kit/tracer.ts';
import type { Source } from '../metrics/family.ts';
import { createAccountMeter, ownFamilies, statusSamples } from '../metrics/own.ts';
import type { AccountStatus } from '../model/status.ts';
import { accountStatus, createSlot, type Slot } from '../scheduler/board.ts';
import { createRunner, type RunRound } from '../scheduler/runner.ts';
import type { Store } from '../store/store.ts';
import { createBudget } from '../upstream/budget.ts';
import { ENDPOINTS } from '../upstream/call.ts';
import { createClient } from '../upstream/client.ts';
import { OUTCOMES } from '../upstream/errors.ts';
import type { SecretSetting } from '../upstream/options.ts';
import { fileToken, fixedToken, type TokenSource, toToken } from '../upstream/token.ts';

export interface AccountDeps {
  readonly config: Config;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly dispatcher: Dispatcher;
  readonly requestSeconds: Histogram<'endpoint'>;
  readonly store: Store;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Log;
  readonly tracer: Tracer;
}

/** Everything that belongs to one account: what to run, and what it shows. */
export interface Account {
  readonly rounds: readonly { readonly round: string; readonly every: number; readonly run: RunRound }[];
  /** What the service said. */
  readonly facts: readonly Source[];
  /** That, and what the agent says of the account. */
  readonly sources: readonly Source[];
  status(): AccountStatus;
  /** Requests that have ended. */
  requests(): number;
}

function tokenSource(setting: SecretSetting, env: AccountDeps['env']): TokenSource {
  if ('file' in setting) return fileToken(setting.file);
  if ('literal' in setting) return fixedToken(setting.literal);
  const token = toToken(env[setting.env] ?? '');
  if (!token) throw new Error(`the environment variable ${setting.env} holds no token`);
  return fixedToken(token);
}

/** A collector's facts as the exposition reads them: gone while they are too old to be shown. */
function collectorSource(collector: Collector, slot: Slot): Source {
  const families = Object.entries(collector.families);
  return {
    account: slot.account,
    families: families.map(([, family]) => family),
    revision: () => slot.visible(),
    samples() {
      const facts = slot.visible();
      if (facts === undefined) return new Map();
      const samples = collector.samples(facts);
      return new Map(families.map(([key, family]) => [family.name, samples[key] ?? []]));
    },
  };
}

export async function createAccount(
  { name, baseUrl, token, budget: limits }: Config['accounts'][number],
  { config, env, dispatcher, requestSeconds, store, clock, random, log, tracer }: AccountDeps,
): Promise<Account> {
  const active = collectors
    .map(collector => ({ collector, options: config.collect[collector.configKey] as { enabled: boolean } }))
    .filter(({ options }) => options.enabled);
  const meter = createAccountMeter({
    endpoints: ENDPOINTS,
    outcomes: OUTCOMES,
    collectors: active.map(({ collector }) => collector.name),
  });
  const budget = createBudget(limits, clock, seconds => meter.budgetWait.inc({}, seconds));
  let tokenRejected = false;
  const client = createClient({
    baseUrl,
    token: tokenSource(token, env),
    budget,
    dispatcher,
    timeout: config.upstream.timeout,
    meter: { ...meter, seconds: requestSeconds },
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
    const intervals = collector.rounds(options);
    const slot = createSlot({ account: name, collector: collector.name }, intervals, config.staleness, clock);
    const api = client.at('normal');
    const run = await createRunner({
      observer: {
        name: collector.name,
        restore: collector.restore,
        observe: step => collector.observe({ api, options, ...step }),
      },
      slot,
      store,
      clock,
      log,
      tracer,
    });
    slots.push(slot);
    facts.push(collectorSource(collector, slot));
    for (const [round, every] of Object.entries(intervals)) rounds.push({ round, every, run });
  }

  const status = () => accountStatus(name, slots);
  const own: Source = {
    account: name,
    families: Object.values(ownFamilies),
    // Freshness changes with time alone, so what is shown of it is part of the identity.
    revision: () => `${meter.revision()} ${tokenRejected} ${budget.remaining()} ${JSON.stringify(status())}`,
    samples: () =>
      new Map(
        [
          ...statusSamples(status()),
          ...meter.samples(),
          [ownFamilies.tokenRejected, [{ labels: {}, value: Number(tokenRejected) }]] as const,
          [ownFamilies.budgetRemaining, [{ labels: {}, value: budget.remaining() }]] as const,
        ].map(([family, samples]) => [family.name, samples]),
      ),
  };
  return { rounds, facts, sources: [...facts, own], status, requests: meter.ended };
}
