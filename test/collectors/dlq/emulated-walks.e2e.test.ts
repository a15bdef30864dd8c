import fc from 'fast-check';
import { expect, it } from 'vitest';
import { withReader } from '../../../src/collectors/collector.ts';
import { createDlq, dlq } from '../../../src/collectors/dlq/dlq.ts';
import type { DlqFacts } from '../../../src/collectors/dlq/families.ts';
import { type EmulatedAccount, type Emulator, startEmulator } from '../../../src/emulator/server.ts';
import { systemClock } from '../../../src/kit/clock.ts';
import { Secret } from '../../../src/kit/secret.ts';
import { createCollectorState } from '../../../src/scheduler/board.ts';
import { createRunner } from '../../../src/scheduler/runner.ts';
import { createMemoryStore } from '../../../src/store/memory.ts';
import type { Store } from '../../../src/store/store.ts';
import { afterThisTest, createTestClient } from '../../support/client.ts';
import { samplesBy } from '../../support/samples.ts';
import { createTestLog, createTestTracer } from '../../support/silent.ts';

const RUNS = 25;
const QUEUES = ['emails', 'payments'] as const;
type Queue = (typeof QUEUES)[number];

/** Tracks the entries that an emulated queue contained at any time, and at all times, since the last `watch`. */
function createTruth({ state }: EmulatedAccount, now: () => number) {
  const present = new Map<string, Queue>();
  let ever = new Map<string, Queue>();
  let always = new Map<string, Queue>();
  const count = (ids: ReadonlyMap<string, Queue>, queue?: Queue) =>
    [...ids.values()].filter(each => queue === undefined || each === queue).length;
  return {
    add(age: number, retries: number, queueName: Queue) {
      const enteredAt = now() - age;
      const id = state.addDlqEntry({ enteredAt, createdAt: enteredAt - retries, queueName });
      present.set(id, queueName);
      ever.set(id, queueName);
    },
    remove(number: number) {
      const id = [...present.keys()][number % Math.max(1, present.size)];
      if (id === undefined) return;
      if (!state.removeDlqEntry(id)) throw new Error(`${id} is already removed`);
      present.delete(id);
      always.delete(id);
    },
    watch() {
      // Cross-checks this bookkeeping with the emulator's own count.
      expect(present.size).toBe(state.countDlq());
      ever = new Map(present);
      always = new Map(present);
    },
    /**
     * Returns the number of entries present throughout the time since the last `watch`, and the number present at any time
     * since then.
     */
    bounds: (queue?: Queue) => [count(always, queue), count(ever, queue)] as const,
  };
}

/** Creates the real client, collector, runner and board on a store that outlives them. */
function createAgent(emulator: Emulator, account: EmulatedAccount, inner: Store) {
  const clock = { ...systemClock, now: emulator.clock.now };
  const collector = createDlq(dlq.options.parse({ filters: [{ name: 'emails', match: { queueName: 'emails' } }] }));
  let onAnswer = () => {};
  const none = { inc: () => undefined, observe: () => undefined };
  const { reader } = createTestClient(emulator.url, {
    token: async () => new Secret(account.token),
    meter: { requests: { inc: () => onAnswer() }, seconds: none, bytes: none, rowsRejected: none, listsMissing: none },
  });

  async function boot() {
    let isDead = false;
    const store: Store = {
      ...inner,
      async commit(...row) {
        if (isDead) throw new Error('this process is no more');
        return inner.commit(...row);
      },
    };
    const staleness = { markAfter: 3, withdrawAfter: 20, withdrawAtMost: 1_800_000 };
    const which = { account: 'a', collector: dlq.name };
    const slot = createCollectorState<DlqFacts>(which, collector.rounds, staleness, clock);
    const run = await createRunner({
      observer: withReader(collector, () => reader),
      state: slot,
      store,
      clock,
      log: createTestLog(),
      tracer: createTestTracer(),
    });
    const stop = new AbortController();
    return {
      slot,
      run: (round: string) => run(round, stop.signal),
      die() {
        isDead = true;
        stop.abort(new Error('killed'));
      },
    };
  }

  const sum = (samples: readonly { readonly value: number }[]) => samples.reduce((all, { value }) => all + value, 0);
  return {
    boot,
    /** Sets a function that runs after each response, before the response is processed. */
    onAnswer(change: () => void) {
      onAnswer = change;
    },
    /** Returns the exposed sizes of the queue and the filter, and the sum of two breakdowns of the queue. */
    gauges(slot: Awaited<ReturnType<typeof boot>>['slot']) {
      const { now } = slot.visible();
      const samples = now === undefined ? undefined : samplesBy(dlq, now);
      const emails = samples?.filterMessages?.find(({ labels }) => labels.filter === 'emails')?.value;
      return {
        all: samples?.messages?.[0]?.value,
        emails,
        broken: sum([...(samples?.urlHost ?? []), ...(samples?.responseStatus ?? [])]),
      };
    },
    counters(slot: Awaited<ReturnType<typeof boot>>['slot']) {
      const { committed } = slot.visible();
      const { entered = [], left = [] } = committed ? samplesBy(dlq, committed) : {};
      return { entered: sum(entered), left: sum(left) };
    },
  };
}

/** Age and retry time of an entry (ms), and its queue. No entry expires during the test. */
const letter = fc.tuple(
  fc.oneof(fc.constantFrom(0, 5, 5000), fc.nat(3_600_000), fc.nat(60 * 3_600_000)),
  fc.nat(100_000),
  fc.constantFrom(...QUEUES),
);
/** Several pages, so that entries are added and removed between two of them. */
const manyLetters = fc.integer({ min: 1100, max: 1400 }).map(count =>
  Array.from({ length: count }, (_, index): [number, number, Queue] => {
    const age = Math.floor((index * 30 * 3_600_000) / count);
    return [age, (index * 7919) % 100_000, QUEUES[index % 2] as Queue];
  }),
);
const round = fc.record({
  rounds: fc.constantFrom<readonly string[]>(['full'], ['full'], ['new'], ['full', 'new']),
  /** Changes, one after each response. A tuple adds an entry, a number removes one. */
  changes: fc.array(fc.oneof(letter, fc.nat(2000)), { maxLength: 20 }),
  /** Whether the changes happen before the round instead of during it. */
  isQuiet: fc.boolean(),
  /** Number of responses after which the process is killed. The next process starts from the store. */
  killedAfter: fc.option(fc.nat(12), { freq: 3 }),
  /** Delay before the round (ms). */
  wait: fc.nat(100_000),
});

it('the queue size lies between the number of entries present throughout a walk and the number present at any time during it, despite kills', async () => {
  const emulator = await startEmulator({ accounts: RUNS, speed: 0, workload: false, history: 0, dlqEntries: 0 });
  afterThisTest(() => emulator.close());
  const accounts = emulator.accounts.values();
  let [kills, changedDuring] = [0, 0];
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(fc.array(letter, { maxLength: 150 }), manyLetters),
      fc.array(round, { minLength: 1, maxLength: 6 }),
      async (letters, rounds) => {
        const account = accounts.next().value as EmulatedAccount;
        const truth = createTruth(account, emulator.clock.now);
        for (const each of letters) truth.add(...each);
        const agent = createAgent(emulator, account, createMemoryStore());
        let process = await agent.boot();
        truth.watch();
        await process.run('full');
        const { all: initial = Number.NaN } = agent.gauges(process.slot);
        expect(initial).toBe(letters.length);
        let before = agent.counters(process.slot);
        expect(before).toEqual({ entered: 0, left: 0 });
        for (const { rounds: names, changes, isQuiet, killedAfter, wait } of rounds) {
          emulator.clock.advance(wait);
          const pending = [...changes];
          const change = () => {
            const next = pending.shift();
            if (typeof next === 'number') truth.remove(next);
            else if (next) truth.add(...next);
          };
          if (isQuiet) while (pending.length > 0) change();
          truth.watch();
          let answers = 0;
          let isKilled = false;
          agent.onAnswer(() => {
            if (pending.length > 0) changedDuring += 1;
            change();
            if (answers === killedAfter) {
              process.die();
              isKilled = true;
              kills += 1;
            }
            answers += 1;
          });
          await Promise.all(names.map(process.run));
          if (isKilled) {
            process = await agent.boot();
            expect(agent.gauges(process.slot).all).toBeUndefined();
            await process.run('full');
          }
          agent.onAnswer(() => {});
          const counters = agent.counters(process.slot);
          expect(counters.entered).toBeGreaterThanOrEqual(before.entered);
          expect(counters.left).toBeGreaterThanOrEqual(before.left);
          before = counters;
          const { all, emails, broken } = agent.gauges(process.slot);
          expect(all).toBe(initial + counters.entered - counters.left);
          expect(broken).toBe(2 * (all ?? Number.NaN));
          expect(process.slot.status().rounds.flatMap(({ failure }) => failure ?? [])).toEqual([]);
          if (!isKilled && !names.includes('full')) continue;
          const [least, most] = truth.bounds();
          expect(all).toBeGreaterThanOrEqual(least);
          expect(all).toBeLessThanOrEqual(most);
          const [leastEmails, mostEmails] = truth.bounds('emails');
          expect(emails).toBeGreaterThanOrEqual(leastEmails);
          expect(emails).toBeLessThanOrEqual(mostEmails);
          // Without changes during the round, the queue size is exact.
          if (isQuiet) expect(all).toBe(account.state.countDlq());
        }
      },
    ),
    // Shrinking a failing run would need too many accounts and too much time.
    { numRuns: RUNS, endOnFailure: true },
  );
  // The property is only meaningful if each of these cases occurred.
  expect(kills).toBeGreaterThan(5);
  expect(changedDuring).toBeGreaterThan(RUNS);
});
