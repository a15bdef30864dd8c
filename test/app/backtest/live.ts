import type { Account } from '../../../src/app/account.ts';
import { openCollectors } from '../../../src/app/account-collectors.ts';
import { openAlerting } from '../../../src/app/alerting.ts';
import type { Firing } from '../../../src/app/backtest/firings.ts';
import type { Config } from '../../../src/config/schema.ts';
import type { DeliveryEvent } from '../../../src/model/message.ts';
import { createMemoryStore } from '../../../src/store/memory.ts';
import { createTestLog, createTestTracer } from '../../support/silent.ts';
import { readerOf } from './log.ts';

/** What a running agent would have told, alert by alert: rounds, board, evaluation and alerts as `serve` puts them together. */
export async function runLive(
  config: Config,
  log: readonly DeliveryEvent[],
  { from, to }: { readonly from: number; readonly to: number },
): Promise<ReadonlyMap<string, readonly Pick<Firing, 'from' | 'to' | 'labels'>[]>> {
  let now = from;
  const clock = { now: () => now, monotonic: () => now, sleep: () => Promise.resolve() };
  const [settings] = config.accounts as [Config['accounts'][number]];
  const store = createMemoryStore();
  const common = { config, store, clock, log: createTestLog(), tracer: createTestTracer() };
  const reader = readerOf(log, clock.now);
  const { all } = await openCollectors(settings, {
    ...common,
    env: {},
    at: () => reader,
    before: { freshness: {} } as never,
    shown: undefined,
    backfill: undefined,
    traceQueue: () => undefined,
  });
  const account = {
    name: settings.name,
    sources: all.map(({ source }) => source),
    state: (collector: string) => all.find(({ state }) => state.collector === collector)?.state,
    status: () => ({ account: settings.name, up: true, collectors: [] }),
    isTokenKnown: () => true,
  } as unknown as Account;
  const alerting = await openAlerting({ ...common, env: {}, accounts: [account], random: () => 0.5 });
  const [evaluate] = alerting.evaluations([]);
  const tail = all.flatMap(({ rounds }) => rounds).find(({ round }) => round === 'tail');
  if (!evaluate || !tail) throw new Error('no alerts, or no event log');
  const firings = new Map<string, { from: number; to: number | undefined; labels: Firing['labels'] }[]>();
  const open = new Map<string, { from: number; to: number | undefined; labels: Firing['labels'] }>();
  const signal = new AbortController().signal;
  let readAt = Number.NEGATIVE_INFINITY;
  for (; now <= to; now += config.alerts.evaluateEvery) {
    if (now - readAt >= tail.every) {
      await tail.run(signal);
      readAt = now;
    }
    await evaluate();
    for (const { state, labels, startsAt, endsAt } of alerting.alerts(settings.name)) {
      if (state === 'pending' || startsAt === undefined) continue;
      const { alertname = '', account: _account, ...own } = labels;
      const key = JSON.stringify([labels, startsAt]);
      const known = open.get(key) ?? { from: Date.parse(startsAt), to: undefined, labels: own };
      if (!open.has(key)) firings.set(alertname, [...(firings.get(alertname) ?? []), known]);
      open.set(key, known);
      if (endsAt !== undefined) known.to = Date.parse(endsAt);
    }
  }
  await alerting.close();
  return firings;
}
