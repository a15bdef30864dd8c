import { describe, expect, it } from 'vitest';
import { AttemptLedger, type Attempts } from '../../../src/collectors/flow-control/attempts.ts';
import { createAudit } from '../../../src/collectors/flow-control/audit.ts';
import {
  addSample,
  compare,
  createEvidence,
  ghostSlots,
  PROOF,
} from '../../../src/collectors/flow-control/evidence.ts';
import { EVENT_STATES, type EventState } from '../../../src/model/message.ts';

const SECOND = 1000;

/** Returns the evidence of a key with one ghost slot after reads at an interval (30 s by default) over a period. */
function watchedFor(span: number, { waitlistSize = 1, every = 30 * SECOND } = {}) {
  const watched = createEvidence(0, true);
  for (let at = 0; at <= span; at += every) {
    watched.samples.push({ key: 'key', from: at, at, waitlistSize, parallelismInUse: 1, excess: 1, atMost: 1 });
  }
  watched.run = { since: 0, last: span, reads: watched.samples.length };
  return watched;
}

describe('evidence for ghost slots', () => {
  it('proof of ghost slots requires a minimum time without an attempt, plus the peak delay of events', () => {
    expect(PROOF).toBe(270 * SECOND);
    expect(ghostSlots(watchedFor(PROOF - 30 * SECOND), 0)).toBe(0);
    expect(ghostSlots(watchedFor(PROOF), 0)).toBe(1);
    expect(ghostSlots(watchedFor(PROOF), 60 * SECOND)).toBe(0);
    expect(ghostSlots(watchedFor(PROOF + 60 * SECOND), 60 * SECOND)).toBe(1);
  });

  it('proof of ghost slots requires at least four reads, and waiting messages', () => {
    expect(ghostSlots(watchedFor(PROOF, { every: PROOF / 2 }), 0)).toBe(0);
    expect(ghostSlots(watchedFor(PROOF, { every: PROOF / 3 }), 0)).toBe(1);
    expect(ghostSlots(watchedFor(PROOF, { waitlistSize: 0 }), 0)).toBe(0);
  });

  it('proof of ghost slots tolerates five seconds of clock skew between attempts and reads', () => {
    const ledger = new AttemptLedger();
    const add = (message: bigint, state: EventState, time: number) =>
      ledger.add({ message, state: EVENT_STATES.indexOf(state), time, flowKey: 'key' });
    ledger.open(0, 0);
    add(1n, 'active', 50 * SECOND);
    add(1n, 'delivered', 96 * SECOND);
    add(2n, 'active', 140 * SECOND);
    ledger.settle({ newest: 200 * SECOND, settledTo: 150 * SECOND, readTo: 200 * SECOND });
    const excessAt = (at: number) => {
      const watched = createEvidence(0, true);
      addSample(watched, { key: 'key', waitlistSize: 1, parallelismInUse: 1 }, { from: at, now: at });
      compare(watched, ledger, 145 * SECOND);
      return watched.samples[0]?.excess;
    };
    expect(excessAt(101 * SECOND)).toBe(0);
    expect(excessAt(110 * SECOND)).toBe(1);
    expect(excessAt(134 * SECOND)).toBe(1);
    expect(excessAt(136 * SECOND)).toBe(0);
  });
});

it('counts unexplained slots that predate the first log read as excess after eight days, unless the key is paused', () => {
  const DAY = 86_400 * SECOND;
  const excessAfter = (days: number, paused = false) => {
    const ledger = new AttemptLedger();
    ledger.open(0, 0);
    ledger.add({ message: 1n, state: EVENT_STATES.indexOf('active'), time: days * DAY, flowKey: 'other' });
    const time = (days + 1) * DAY;
    ledger.settle({ newest: time, settledTo: time, readTo: time });
    const watched = createEvidence(0, false);
    const entry = { key: 'key', waitlistSize: 1, parallelismInUse: 2, parallelismLimit: 2, paused };
    addSample(watched, entry, { from: days * DAY, now: days * DAY });
    compare(watched, ledger, time);
    return watched.samples[0]?.excess;
  };
  expect([excessAfter(7.9), excessAfter(8.1), excessAfter(8.1, true)]).toEqual([0, 2, 0]);
});

describe('discarded evidence', () => {
  const ledgerOf = (...events: readonly [message: bigint, state: EventState, time: number][]) => {
    const ledger = new AttemptLedger();
    ledger.open(0, 0);
    for (const [message, state, time] of events) {
      ledger.add({ message, state: EVENT_STATES.indexOf(state), time, flowKey: 'key' });
    }
    ledger.settle({ newest: 60 * SECOND, settledTo: 60 * SECOND, readTo: 60 * SECOND });
    return ledger;
  };
  const knownFrom = (ledger: ReturnType<typeof ledgerOf>) => {
    const watched = createEvidence(0, true);
    addSample(watched, { key: 'key', waitlistSize: 1, parallelismInUse: 1 }, { from: 10_000, now: 10_000 });
    compare(watched, ledger, 60 * SECOND);
    return [watched.knownFrom, watched.unseen];
  };

  it('discards the evidence of a key when the log lists the end of an attempt but not its start', () => {
    expect(knownFrom(ledgerOf([1n, 'active', 20 * SECOND], [1n, 'delivered', 50 * SECOND]))).toEqual([0, 0]);
    expect(knownFrom(ledgerOf([1n, 'delivered', 50 * SECOND]))).toEqual([55 * SECOND, undefined]);
  });

  it('discards the evidence of a key when the log was reset', () => {
    const ledger = ledgerOf([1n, 'active', 20 * SECOND]);
    ledger.reset(40 * SECOND);
    expect(knownFrom(ledger)).toEqual([40 * SECOND, undefined]);
  });

  it('discards the evidence of a key that changed while the log was silent', () => {
    const stateAfter = (silence: Attempts['silence']) => {
      const audit = createAudit(true);
      const none = () => ({ max: 0, min: 0 });
      const log = { running: none, claimed: none, hasTooManyWaits: false, begun: () => 0, unseen: () => 0 };
      let shown: ReturnType<typeof audit.evaluate>;
      for (let now = 1000; now <= 600 * SECOND; now += 15 * SECOND) {
        const seen = { newest: now - SECOND, settledTo: now - 60 * SECOND, readTo: now, isKeyed: true, since: 0 };
        const known = { lateBy: 0, isOverLimit: false, silence: now > 300 * SECOND ? silence : undefined };
        const busy = { key: 'busy', waitlistSize: 0, parallelismInUse: 1, rateUsed: now };
        const stuck = { key: 'key', waitlistSize: 1, parallelismInUse: 1, parallelismLimit: 1 };
        const entries = now > 20 * SECOND ? [busy, stuck] : [busy];
        const attempts: Attempts = { ...seen, ...known, ...log };
        shown = audit.evaluate({ from: now, now, entries, isComplete: true, attempts });
      }
      return shown?.get('key')?.state;
    };
    expect(stateAfter(undefined)).toBe('ghost_slots');
    expect(stateAfter({ from: 100 * SECOND, to: 250 * SECOND })).not.toBe('ghost_slots');
  });
});
