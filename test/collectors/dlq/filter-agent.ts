import { withReader } from '../../../src/collectors/collector.ts';
import { createDlq, dlq } from '../../../src/collectors/dlq/dlq.ts';
import type { DlqFacts } from '../../../src/collectors/dlq/families.ts';
import { systemClock } from '../../../src/kit/clock.ts';
import { Secret } from '../../../src/kit/secret.ts';
import { createCollectorState } from '../../../src/scheduler/board.ts';
import { createRunner } from '../../../src/scheduler/runner.ts';
import { createMemoryStore } from '../../../src/store/memory.ts';
import type { Store } from '../../../src/store/store.ts';
import { createTestClient } from '../../support/client.ts';
import { samplesBy } from '../../support/samples.ts';
import { createTestLog, createTestTracer } from '../../support/silent.ts';

interface Options {
  readonly url: string;
  readonly token?: string;
  readonly filters: readonly { readonly name: string; readonly match: Readonly<Record<string, string | number>> }[];
  readonly now?: () => number;
  /** Timeout of a request (ms). */
  readonly timeout?: number;
  readonly store?: Store;
}

/** Creates the real client, collector, runner and board of one account. */
export async function createFilterAgent({
  url,
  token,
  filters,
  now = systemClock.now,
  timeout = 60_000,
  store = createMemoryStore(),
}: Options) {
  const collector = createDlq(dlq.options.parse({ filters }));
  const { reader, counts } = createTestClient(url, { timeout, ...(token && { token: async () => new Secret(token) }) });
  const clock = { ...systemClock, now };
  const state = createCollectorState<DlqFacts>(
    { account: 'a', collector: dlq.name },
    collector.rounds,
    { markAfter: 3, withdrawAfter: 20, withdrawAtMost: 1_800_000 },
    clock,
  );
  const log = createTestLog();
  const observer = withReader(collector, () => reader);
  const run = await createRunner({ observer, state, store, clock, log, tracer: createTestTracer() });
  return {
    log,
    requests: {
      get dlq() {
        return counts.requests['dlq ok'] ?? 0;
      },
    },
    round: (name: 'full' | 'new') => run(name, new AbortController().signal),
    status: () => state.status(),
    /** Returns the success and completeness of each round. */
    rounds: () =>
      Object.fromEntries(state.status().rounds.map(({ round, success, complete }) => [round, [success, complete]])),
    failures: () => state.status().failedFilters?.map(({ name, message }) => `${name}: ${message}`) ?? [],
    /** Returns the gauges and counters of the queue or of a filter. Families without a series are omitted. */
    shown(filter?: string) {
      const { now: gauges, committed } = state.visible();
      const found = { ...(committed && samplesBy(dlq, committed)), ...(gauges && samplesBy(dlq, gauges)) };
      const of = (key: keyof typeof found) =>
        found[key]?.find(({ labels }) => filter === undefined || (labels as { filter?: string }).filter === filter)
          ?.value;
      return JSON.parse(
        JSON.stringify(
          filter === undefined
            ? { messages: of('messages') }
            : { messages: of('filterMessages'), proven: of('filterProven'), entered: of('filterEntered') },
        ),
      );
    },
  };
}
