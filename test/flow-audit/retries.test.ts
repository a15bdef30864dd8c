import { describe, expect, it, test } from 'vitest';
import { type AttemptEvent, createAttemptLedger } from '../../src/flow-audit/attempts.ts';
import { addSample, compare, compareIdle, createWatched } from '../../src/flow-audit/evidence.ts';
import { createRetrySlots, type RetrySlot } from '../../src/flow-audit/retry-slots.ts';
import { EVENT_STATES, type EventState } from '../../src/model/message.ts';
import { createAuditedService, keyed } from '../support/audited-service.ts';

const SECOND = 1000;
const MINUTE = 60_000;
const DAY = 86_400_000;

type Told = readonly [message: bigint, state: EventState, at: number, dueAt?: number];
const eventOf = ([message, state, at, dueAt = 0]: Told): AttemptEvent => ({
  message,
  state: EVENT_STATES.indexOf(state),
  time: at * SECOND,
  dueAt: dueAt * SECOND,
  flowKey: 'key',
});

/** A ledger with these events, settled until so many seconds. Times: seconds. */
function ledgerOf(events: readonly Told[], { settledTo = 600, stored }: { settledTo?: number; stored?: string } = {}) {
  const ledger = createAttemptLedger(stored);
  ledger.open(0, 0);
  for (const event of events) ledger.add(eventOf(event));
  const time = settledTo * SECOND;
  ledger.settle({ newest: time, settledTo: time, readTo: time });
  return ledger;
}

interface Read {
  readonly at: number;
  readonly inUse: number;
  readonly limit?: number | undefined;
  readonly retries?: ReturnType<typeof createRetrySlots>;
}

/** One read of a key, compared with what the log tells. */
function compared({ view }: ReturnType<typeof ledgerOf>, { at, inUse, limit = 2, retries = createRetrySlots() }: Read) {
  const watched = createWatched(0, true);
  const time = at * SECOND;
  const entry = { key: 'key', waitlistSize: 1, parallelismInUse: inUse, parallelismLimit: limit };
  addSample(watched, entry, { from: time, now: time });
  compare(watched, view, 600 * SECOND, retries);
  return { sample: watched.samples[0], retries };
}

/** So many reads that tell the same, ten minutes apart from the first on. */
function taught(...evidence: readonly (readonly [RetrySlot, number])[]) {
  const retries = createRetrySlots();
  let at = -10 * MINUTE;
  for (const [kind, count] of evidence) {
    for (let left = count; left > 0; left -= 1) {
      at += 10 * MINUTE;
      retries.take(kind, at, 0);
    }
  }
  return retries;
}

describe('what is known of retries', () => {
  it('takes three reads one after the other that tell that they keep no slot, eight that they do', () => {
    expect(taught(['released', 2]).known).toBeUndefined();
    expect(taught(['released', 3]).known).toBe('released');
    expect(taught(['kept', 7]).known).toBeUndefined();
    expect(taught(['kept', 8]).known).toBe('kept');
    expect(taught(['released', 2], ['kept', 1], ['released', 2]).known).toBeUndefined();
  });

  it('takes a quarter of an hour', () => {
    const retries = createRetrySlots();
    for (let at = 0; at < 15; at += 1) retries.take('released', at * MINUTE, 0);
    expect(retries.known).toBeUndefined();
    retries.take('released', 15 * MINUTE, 0);
    expect(retries.known).toBe('released');
  });

  it('is withdrawn by two reads that tell the opposite, and takes twice as many then', () => {
    expect(taught(['released', 3], ['kept', 1], ['released', 1], ['kept', 1]).known).toBe('released');
    expect(taught(['released', 3], ['kept', 2]).known).toBeUndefined();
    expect(taught(['released', 3], ['kept', 2], ['released', 5]).known).toBeUndefined();
    expect(taught(['released', 3], ['kept', 2], ['released', 6]).known).toBe('released');
  });

  it('is withdrawn when nothing has confirmed it for seven days', () => {
    const retries = taught(['released', 3]);
    expect(retries.lapse(7 * DAY)).toBe(false);
    expect(retries.lapse(7 * DAY + 21 * MINUTE)).toBe(true);
    expect(retries.known).toBeUndefined();
    expect(retries.lapse(8 * DAY)).toBe(false);
  });

  it('is known of waits as long as the shortest that three reads prove, and of longer ones', () => {
    const retries = createRetrySlots();
    for (const [index, seconds] of [100, 20, 60].entries())
      retries.take('released', index * 10 * MINUTE, seconds * SECOND);
    expect([retries.known, retries.releasedFrom]).toEqual(['released', 90 * SECOND]);
    retries.take('released', 30 * MINUTE, 10 * SECOND);
    expect(retries.releasedFrom).toBe(54 * SECOND);
    expect(createRetrySlots(retries.row).releasedFrom).toBe(54 * SECOND);
    for (const at of [40, 50]) expect(retries.take('kept', at * MINUTE, 53 * SECOND)).toBe(false);
    expect([40, 50].map(at => retries.take('kept', at * MINUTE, 54 * SECOND))).toEqual([false, true]);
    expect(retries.releasedFrom).toBe(Number.POSITIVE_INFINITY);
  });

  it('of waits is learnt anew after reads that tell the opposite', () => {
    const from = (...evidence: readonly (readonly [RetrySlot, count: number, seconds: number])[]) => {
      const retries = createRetrySlots();
      const all = evidence.flatMap(([kind, count, seconds]) =>
        Array.from({ length: count }, () => ({ kind, seconds })),
      );
      for (const [index, { kind, seconds }] of all.entries()) retries.take(kind, index * 10 * MINUTE, seconds * SECOND);
      return [retries.known, retries.releasedFrom];
    };
    const short = [['released', 2, 10] as const, ['kept', 1, 10] as const];
    expect(from(...short, ...short, ['released', 3, 100])).toEqual(['released', 90 * SECOND]);
    expect(from(['released', 3, 10], ['kept', 2, 10], ['released', 6, 100])).toEqual(['released', 90 * SECOND]);
    expect(from(['released', 3, 10], ['kept', 1, 10])).toEqual(['released', 9 * SECOND]);
  });

  it('is not withdrawn while reads confirm it', () => {
    const retries = taught(['released', 3]);
    retries.take('released', 3 * DAY, 0);
    expect(retries.lapse(10 * DAY)).toBe(false);
    expect(retries.lapse(10 * DAY + 1)).toBe(true);
    for (const day of [11, 12, 13]) retries.take('released', day * DAY, 100 * SECOND);
    expect([retries.known, retries.releasedFrom]).toEqual(['released', 90 * SECOND]);
  });

  it('is stored', () => {
    const retries = taught(['released', 3], ['kept', 1]);
    const again = createRetrySlots(retries.row);
    expect(again).toMatchObject({ known: 'released', at: 30 * MINUTE });
    expect(again.take('kept', 40 * MINUTE, 0)).toBe(true);
  });
});

describe('a read proves that waiting retries keep no slot', () => {
  const failed: readonly Told[] = [
    [1n, 'active', 95],
    [1n, 'error', 100, 248],
  ];
  const proof = (events: readonly Told[], read: Partial<Read> = {}) =>
    compared(ledgerOf(events), { at: 150, inUse: 0, ...read }).retries.at > 0;

  it('when fewer slots are in use than messages wait', () => {
    expect(proof(failed)).toBe(true);
    expect(proof(failed, { inUse: 1 })).toBe(false);
  });

  it('when others begin though as many wait as there are slots', () => {
    const other: Told = [2n, 'active', 150];
    expect(proof([...failed, other], { inUse: 1, limit: 1 })).toBe(true);
    expect(proof([...failed, other], { inUse: 1, limit: 2 })).toBe(false);
    expect(proof([...failed, [2n, 'active', 60]], { inUse: 1, limit: 1 })).toBe(false);
  });

  it('not beside the wait, by clocks that differ by five seconds', () => {
    expect([104, 106, 242, 244].map(at => proof(failed, { at }))).toEqual([false, true, true, false]);
  });

  it('not by a message that may have ended meanwhile', () => {
    const [begun] = failed;
    expect(proof([begun as Told, [1n, 'error', 100]])).toBe(false);
    expect(proof([...failed, [1n, 'cancel_requested', 120]])).toBe(false);
    expect(proof([...failed, [1n, 'active', 120]])).toBe(false);
    expect(proof([begun as Told, [1n, 'error', 100], [1n, 'failed', 100]])).toBe(false);
    expect(proof([begun as Told, [1n, 'failed', 100], [1n, 'error', 100, 248]])).toBe(false);
  });

  it('not by an attempt whose end the log lost', () => {
    expect(proof([[1n, 'active', 95]])).toBe(false);
  });

  it('not beside more attempts than slots in use: one of both is wrong', () => {
    expect(proof([...failed, [2n, 'active', 120]], { inUse: 1 })).toBe(false);
    expect(proof([...failed, [2n, 'active', 120]], { inUse: 0 })).toBe(false);
  });

  it('when a wait begins between two reads and the slots without an attempt stay the same; that it keeps one, when they rise', () => {
    const ledger = ledgerOf([
      [1n, 'active', 50],
      [2n, 'active', 155],
      [2n, 'error', 160, 400],
    ]);
    const told = (inUse: number, second = 180) => {
      const [watched, retries] = [createWatched(0, true), createRetrySlots()];
      for (const [at, slots] of [[140, 1] as const, [second, inUse] as const]) {
        const entry = { key: 'key', waitlistSize: 1, parallelismInUse: slots, parallelismLimit: 4 };
        addSample(watched, entry, { from: at * SECOND, now: at * SECOND });
      }
      compare(watched, ledger.view, 600 * SECOND, retries);
      return (JSON.parse(retries.row) as { last?: RetrySlot }).last;
    };
    expect([1, 2, 3].map(inUse => told(inUse))).toEqual(['released', 'kept', undefined]);
    // Longer apart, both may have happened in turn.
    expect([260, 261].map(second => told(2, second))).toEqual(['kept', undefined]);
  });

  it('not of a key without a limit, which needs no slots', () => {
    const watched = createWatched(0, true);
    const retries = createRetrySlots();
    watched.idle = { key: 'key', waitlistSize: 0, parallelismInUse: 0, from: 150 * SECOND, at: 150 * SECOND };
    compareIdle(watched, ledgerOf(failed).view, 600 * SECOND, retries);
    expect(retries.at).toBe(0);
  });

  it('once: the slots of all that wait may have been reset', () => {
    const retries = createRetrySlots();
    const ledger = ledgerOf([...failed, [2n, 'active', 200], [2n, 'error', 210, 400]]);
    const at = (seconds: number) => compared(ledger, { at: seconds, inUse: 0, retries }).retries.at;
    const first = at(150);
    expect(at(180)).toBe(first);
    expect(at(230)).toBeGreaterThan(first);
  });
});

describe('slots that waiting retries may hold', () => {
  const ledger = ledgerOf([
    [1n, 'active', 50],
    [2n, 'active', 60],
    [2n, 'error', 100, 500],
  ]);
  const sampleAt = (known: RetrySlot | undefined, inUse: number) => {
    const retries = known ? taught([known, 8]) : createRetrySlots();
    expect(retries.known).toBe(known);
    return compared(ledger, { at: 200, inUse, limit: 4, retries }).sample;
  };

  it.each([undefined, 'kept'] as const)('are not in excess while it is %s, those beyond are', known => {
    expect(sampleAt(known, 2)).toMatchObject({ excess: 0, waiting: 1 });
    expect(sampleAt(known, 3)).toMatchObject({ excess: 1, waiting: 1 });
  });

  it('are in excess where retries keep none', () => {
    expect(sampleAt('released', 2)).toMatchObject({ excess: 1, waiting: 0 });
  });
});

describe('where slots of waits of 100 s are known to be given back', () => {
  /** Slots that nothing explains at 200 s, of 2, where so many messages wait until then or later. */
  const excessAt = (events: readonly Told[], rest: { rateLimit?: number; paused?: boolean } = {}) => {
    const retries = createRetrySlots();
    for (const at of [-30, -20, -10]) retries.take('released', at * MINUTE, 100 * SECOND);
    const watched = createWatched(0, true);
    const entry = { key: 'key', waitlistSize: 1, parallelismInUse: 2, parallelismLimit: 2, ...rest };
    addSample(watched, entry, { from: 200 * SECOND, now: 200 * SECOND });
    compare(watched, ledgerOf(events).view, 600 * SECOND, retries);
    return watched.samples[0]?.excess;
  };
  /** A message whose attempt failed at a time, and that waits for so many seconds. */
  const failed = (message: bigint, at: number, delay: number): readonly Told[] => [
    [message, 'active', at - 5],
    [message, 'error', at, at + delay],
  ];

  it('shorter waits may explain slots, about as long ones do not', () => {
    expect(excessAt([])).toBe(2);
    expect(excessAt(failed(1n, 180, 89))).toBe(1);
    expect(excessAt(failed(1n, 180, 90))).toBe(2);
  });

  it('nor do those that are overdue, unless a rate or a pause holds them back', () => {
    expect(excessAt(failed(1n, 140, 51))).toBe(1);
    expect(excessAt(failed(1n, 140, 50))).toBe(2);
    expect(excessAt(failed(1n, 140, 50), { rateLimit: 5 })).toBe(1);
    expect(excessAt(failed(1n, 140, 50), { paused: true })).toBe(1);
  });

  it('those that follow each other count once', () => {
    const mostAt = (begin: number) => {
      const { view } = ledgerOf([...failed(1n, 180, 20), [1n, 'cancelled', 200], ...failed(2n, begin, 50)]);
      const span = { from: 195 * SECOND, to: 205 * SECOND, shorterThan: 60 * SECOND, overdue: 0 };
      return view.waitingBriefly('key', span);
    };
    expect([199, 200, 205, 206].map(mostAt)).toEqual([2, 1, 1, 1]);
  });

  it('nor do any where more messages wait than slots are in use', () => {
    const two = [...failed(1n, 180, 50), ...failed(2n, 180, 50)];
    expect(excessAt(two)).toBe(0);
    expect(excessAt([...two, ...failed(3n, 180, 50)])).toBe(2);
    // The shorter two may have theirs.
    expect(excessAt([...two, ...failed(3n, 180, 60)])).toBe(0);
  });
});

describe('messages that wait', () => {
  const events: readonly Told[] = [
    [1n, 'active', 95],
    [1n, 'error', 100, 5000],
  ];
  const waitingIn = (ledger: ReturnType<typeof ledgerOf>) =>
    ledger.view.claimed('key', 200 * SECOND, 210 * SECOND).most;

  it('are known after a restart', () => {
    const row = ledgerOf(events, { settledTo: 120 }).row();
    expect(waitingIn(ledgerOf([], { stored: row ?? '' }))).toBe(1);
  });

  it('are not known from before a row that does not have them', () => {
    const text = ledgerOf(events, { settledTo: 120 }).row() ?? '';
    const { waits: _, ...row } = JSON.parse(text) as Record<string, unknown>;
    expect(ledgerOf([], { stored: text }).view.since).toBe(0);
    expect(ledgerOf([], { stored: JSON.stringify(row) }).view.since).toBe(row.readTo);
  });

  it('are counted once when the end of a retry is listed before its begin', () => {
    const retried: readonly Told[] = [
      [1n, 'active', 5],
      [1n, 'error', 10, 204],
      [1n, 'delivered', 206],
      [1n, 'active', 204],
    ];
    expect(waitingIn(ledgerOf(retried))).toBe(1);
  });

  it('are none when the last attempt fails, even if its begin was lost', () => {
    expect(
      waitingIn(
        ledgerOf([
          [1n, 'error', 100],
          [1n, 'failed', 100],
        ]),
      ),
    ).toBe(0);
  });

  it('are given up a day after they were due', () => {
    const ledger = ledgerOf(events);
    const mostAt = (seconds: number) => {
      ledger.add(eventOf([9n, 'created', seconds]));
      const time = seconds * SECOND;
      ledger.settle({ newest: time, settledTo: time, readTo: time });
      return ledger.view.claimed('key', time, time).most;
    };
    expect(mostAt(5000 + DAY / SECOND - 60)).toBe(1);
    mostAt(5000 + DAY / SECOND + 60);
    expect(mostAt(5000 + DAY / SECOND + 120)).toBe(0);
  });
});

describe('beside a service', () => {
  /** Keys on which little runs, and some of it fails: they teach. */
  const calm = Array.from({ length: 6 }, (_, index) =>
    keyed(`calm-${index}`, { parallelism: 3, maxRetries: 2 }, { everyMs: 90_000, takesMs: 1000, flaky: 0.5 }),
  );
  /** All that fails waits for an hour. */
  const failing = keyed(
    'key',
    { parallelism: 4, maxRetries: 5 },
    { everyMs: 20_000, takesMs: 20_000, flaky: 0.2, retryMs: 60 * MINUTE },
  );
  const start = (retrySlot: 'released' | 'kept', destinations = [failing, ...calm]) =>
    createAuditedService({ seed: 11, scenario: 'neglected', destinations, dialect: { retrySlot } });

  test.each(['released', 'kept'] as const)('that has them %s: it is learnt, and outlasts the process', async slot => {
    const service = start(slot);
    expect(service.facts()?.retrySlot).toBeUndefined();
    await service.advance(60 * MINUTE);
    expect(service.facts()?.retrySlot).toBe(slot);
    await service.restart(MINUTE);
    expect(service.facts()?.retrySlot).toBe(slot);
  });

  test('that keeps slots: a key full of waiting retries has no ghost slots, before it is learnt and after', async () => {
    const unknown = start('kept', [failing]);
    const learnt = start('kept');
    const told = new Set<string>();
    for (let step = 0; step < 480; step += 1) {
      for (const service of [unknown, learnt]) {
        await service.advance(15_000);
        const { state, reason, ghosts = 0 } = service.audited('key') ?? {};
        expect(ghosts).toBe(0);
        if (service.state.keys().get('key')?.waiting) told.add(`${state}/${reason}`);
      }
    }
    expect([...told]).toEqual(expect.arrayContaining(['unknown/retries_may_hold', 'throttled/retries_hold']));
    expect([...told].filter(text => text.startsWith('ghost_slots'))).toEqual([]);
  });

  test('that keeps the slots of short waits alone: a key full of them has no ghost slots, a leak elsewhere is named', async () => {
    const slow = { parallelism: 3, maxRetries: 2 };
    const short = keyed(
      'key',
      { parallelism: 4, maxRetries: 5 },
      { everyMs: 12_000, takesMs: 10_000, flaky: 0.7, retryMs: 50_000 },
    );
    const leaking = keyed('leaking', { parallelism: 4 }, { everyMs: 4000, takesMs: 15_000 });
    const long = Array.from({ length: 3 }, (_, index) =>
      keyed(`long-${index}`, slow, { everyMs: 60_000, takesMs: 1000, flaky: 0.5, retryMs: 150_000 }),
    );
    const service = createAuditedService({
      seed: 12,
      scenario: 'neglected',
      destinations: [short, leaking, ...long],
      dialect: { retrySlot: 'kept-briefly' },
    });
    const told = new Set<string>();
    let reads = 0;
    for (let step = 0; step < 480; step += 1) {
      if (step === 420) service.state.leakSlots('leaking', 2);
      await service.advance(15_000);
      const { state, reason, ghosts = 0 } = service.audited('key') ?? {};
      expect(ghosts).toBe(0);
      if (service.facts()?.retrySlot === 'released') reads += 1;
      if (service.facts()?.retrySlot === 'released') told.add(`${state}/${reason}`);
    }
    expect(reads).toBeGreaterThan(120);
    expect([...told]).toContain('unknown/retries_may_hold');
    expect(service.audited('leaking')).toMatchObject({ state: 'ghost_slots', ghosts: 2 });
  });

  test('that changes: what was known is withdrawn, and the other learnt', async () => {
    const service = start('released');
    await service.advance(60 * MINUTE);
    expect(service.facts()?.retrySlot).toBe('released');
    service.state.dialect.retrySlot = 'kept';
    const known = new Set<RetrySlot | undefined>();
    for (let step = 0; step < 12 * 60; step += 1) {
      await service.advance(MINUTE);
      known.add(service.facts()?.retrySlot);
      if (known.has('kept')) break;
    }
    expect([...known]).toEqual(['released', undefined, 'kept']);
  });
});
