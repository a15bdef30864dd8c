import { describe, expect, it } from 'vitest';
import { type AttemptEvent, AttemptLedger } from '../../../src/collectors/flow-control/attempts.ts';
import { addSample, compare, createEvidence } from '../../../src/collectors/flow-control/evidence.ts';
import { EVENT_STATES, type EventState } from '../../../src/model/message.ts';
import { createAuditedService, keyed } from '../../support/audited-service.ts';

const SECOND = 1000;
const MINUTE = 60_000;
const DAY = 86_400_000;

type EventTuple = readonly [message: bigint, state: EventState, at: number, dueAt?: number];
const eventOf = ([message, state, at, dueAt = 0]: EventTuple): AttemptEvent => ({
  message,
  state: EVENT_STATES.indexOf(state),
  time: at * SECOND,
  dueAt: dueAt * SECOND,
  flowKey: 'key',
});

/** Creates a ledger with these events, settled up to a time. Times are in seconds. */
function ledgerOf(
  events: readonly EventTuple[],
  { settledTo = 600, stored }: { settledTo?: number; stored?: string } = {},
) {
  const ledger = new AttemptLedger(stored);
  ledger.open(0, 0);
  for (const event of events) ledger.add(eventOf(event));
  const time = settledTo * SECOND;
  ledger.settle({ newest: time, settledTo: time, readTo: time });
  return ledger;
}

it('excludes slots of waiting retries from excess slots', () => {
  const ledger = ledgerOf([
    [1n, 'active', 50],
    [2n, 'active', 60],
    [2n, 'error', 100, 500],
  ]);
  const sampleOf = (inUse: number) => {
    const watched = createEvidence(0, true);
    const entry = { key: 'key', waitlistSize: 1, parallelismInUse: inUse, parallelismLimit: 4 };
    addSample(watched, entry, { from: 200 * SECOND, now: 200 * SECOND });
    compare(watched, ledger, 600 * SECOND);
    return watched.samples[0];
  };
  expect(sampleOf(2)).toMatchObject({ excess: 0, waiting: 1 });
  expect(sampleOf(3)).toMatchObject({ excess: 1, waiting: 1 });
});

describe('waiting retries', () => {
  const events: readonly EventTuple[] = [
    [1n, 'active', 95],
    [1n, 'error', 100, 5000],
  ];
  const waitingIn = (ledger: ReturnType<typeof ledgerOf>) => ledger.claimed('key', 200 * SECOND, 210 * SECOND).max;

  it('messages waiting for a retry are restored after a restart', () => {
    const row = ledgerOf(events, { settledTo: 120 }).row();
    expect(waitingIn(ledgerOf([], { stored: row ?? '' }))).toBe(1);
  });

  it('messages waiting for a retry are counted once if the end of a retry is listed before its start', () => {
    const retried: readonly EventTuple[] = [
      [1n, 'active', 5],
      [1n, 'error', 10, 204],
      [1n, 'delivered', 206],
      [1n, 'active', 204],
    ];
    expect(waitingIn(ledgerOf(retried))).toBe(1);
  });

  it('messages waiting for a retry are removed when the last attempt fails, even if its start was lost', () => {
    expect(
      waitingIn(
        ledgerOf([
          [1n, 'error', 100],
          [1n, 'failed', 100],
        ]),
      ),
    ).toBe(0);
  });

  it('messages waiting for a retry are dropped a day after their due time', () => {
    const ledger = ledgerOf(events);
    const mostAt = (seconds: number) => {
      ledger.add(eventOf([9n, 'created', seconds]));
      const time = seconds * SECOND;
      ledger.settle({ newest: time, settledTo: time, readTo: time });
      return ledger.claimed('key', time, time).max;
    };
    expect(mostAt(5000 + DAY / SECOND - 60)).toBe(1);
    mostAt(5000 + DAY / SECOND + 60);
    expect(mostAt(5000 + DAY / SECOND + 120)).toBe(0);
  });
});

describe('keys with waiting retries', () => {
  it.each([
    ['released', 'throttled/parallelism_limit'],
    ['kept', 'unknown/retries_may_hold'],
  ] as const)(
    'if slots of waiting retries are %s, a key has no ghost slots and its state is %s',
    async (retrySlot, expected) => {
      // Failed messages wait an hour for their retry.
      const failing = keyed(
        'key',
        { parallelism: 4, maxRetries: 5 },
        { everyMs: 3000, takesMs: 20_000, flaky: 0.2, retryMs: 60 * MINUTE },
      );
      const service = createAuditedService({
        seed: 11,
        scenario: 'neglected',
        destinations: [failing],
        dialect: { retrySlot },
      });
      const shown = new Set<string>();
      for (let step = 0; step < 480; step += 1) {
        await service.advance(15_000);
        const { state, reason, ghosts = 0 } = service.audited('key') ?? {};
        expect(ghosts).toBe(0);
        if (service.state.keys().get('key')?.waiting) shown.add(`${state}/${reason}`);
      }
      expect([...shown]).toContain(expected);
      expect([...shown].filter(text => text.startsWith('ghost_slots'))).toEqual([]);
    },
  );

  it('a key has no ghost slots if retries keep their slots during short waits, while a leak on another key is detected', async () => {
    const short = keyed(
      'key',
      { parallelism: 4, maxRetries: 5 },
      { everyMs: 12_000, takesMs: 10_000, flaky: 0.7, retryMs: 50_000 },
    );
    const leaking = keyed('leaking', { parallelism: 4 }, { everyMs: 4000, takesMs: 15_000 });
    const service = createAuditedService({
      seed: 12,
      scenario: 'neglected',
      destinations: [short, leaking],
      dialect: { retrySlot: 'kept-briefly' },
    });
    const shown = new Set<string>();
    for (let step = 0; step < 480; step += 1) {
      if (step === 420) service.state.flow.change('leaking', { leaksLeft: 2 });
      await service.advance(15_000);
      const { state, reason, ghosts = 0 } = service.audited('key') ?? {};
      expect(ghosts).toBe(0);
      shown.add(`${state}/${reason}`);
    }
    expect([...shown]).toContain('unknown/retries_may_hold');
    expect(service.audited('leaking')).toMatchObject({ state: 'ghost_slots', ghosts: 2 });
  });

  it('a key with waiting retries reports its ghost slots after the retries have run', async () => {
    const key = keyed(
      'key',
      { parallelism: 4, maxRetries: 1 },
      { everyMs: 7000, takesMs: 15_000, flaky: 0.5, retryMs: 20 * MINUTE },
    );
    const service = createAuditedService({ seed: 13, scenario: 'neglected', destinations: [key] });
    await service.advance(20 * MINUTE);
    service.state.flow.change('key', { leaksLeft: 2 });
    await service.advance(10 * MINUTE);
    expect(service.audited('key')).toMatchObject({ state: 'unknown', reason: 'retries_may_hold' });
    Object.assign(key, { flaky: 0 });
    await service.advance(90 * MINUTE);
    expect(service.audited('key')).toMatchObject({ state: 'ghost_slots', ghosts: 2 });
  });
});
