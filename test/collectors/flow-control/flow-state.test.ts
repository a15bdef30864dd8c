import fc from 'fast-check';
import { expect, it } from 'vitest';
import { FLOW_STATES, type FlowState, flowStateOf } from '../../../src/model/flow-state.ts';
import type { FlowControlEntry } from '../../../src/model/message.ts';
import { runs } from '../../support/runs.ts';

/** Parses a read: `waiting 5, slots 2/3, rate 9/10, paused`. Omitted parts are not reported; `no limit` is written as `-`. */
function readOf(text: string): FlowControlEntry {
  const pair = (word: string) => {
    const [, used, limit] = new RegExp(`\\b${word} (\\d+)/(\\d+|-)`).exec(text) ?? [];
    return { used: used === undefined ? undefined : Number(used), limit: limit === '-' ? undefined : limit };
  };
  const [slots, rate] = [pair('slots'), pair('rate')];
  const number = (limit: string | undefined) => (limit === undefined ? undefined : Number(limit));
  return {
    key: 'key',
    waitlistSize: Number(/\bwaiting (\d+)/.exec(text)?.[1] ?? 0),
    parallelismInUse: slots.used,
    parallelismLimit: number(slots.limit),
    rateUsed: rate.used,
    rateLimit: number(rate.limit),
    paused: /\bnot paused\b/.test(text) ? false : /\bpaused\b/.test(text) || undefined,
  };
}

it.each<[previous: string | undefined, read: string, state: FlowState | undefined]>([
  // Decided by one read, in this order.
  [undefined, 'waiting 5, slots 3/3, rate 10/10, paused', 'paused'],
  [undefined, 'waiting 0, slots 3/3, rate 10/10, paused', 'paused'],
  [undefined, 'waiting 0, slots 3/3, rate 10/10', 'idle'],
  [undefined, 'waiting 0', 'idle'],
  [undefined, 'waiting 5, slots 3/3, rate 10/10, not paused', 'rate_limited'],
  [undefined, 'waiting 5, rate 11/10', 'rate_limited'],
  [undefined, 'waiting 5, slots 3/3, rate 9/10', 'parallelism_full'],
  [undefined, 'waiting 5, slots 4/3', 'parallelism_full'],
  ['waiting 9, slots 1/3, rate 1/10', 'waiting 5, slots 3/3, rate 10/10', 'rate_limited'],
  ['waiting 9, slots 1/3', 'waiting 5, slots 3/3', 'parallelism_full'],
  // Not decided by one read.
  [undefined, 'waiting 5', undefined],
  [undefined, 'waiting 5, slots 2/3, rate 9/10, not paused', undefined],
  [undefined, 'waiting 5, slots 7/-', undefined],
  // Decided by two reads.
  ['waiting 5', 'waiting 4', 'moving'],
  ['waiting 5', 'waiting 6', 'moving'],
  ['waiting 0', 'waiting 6', 'moving'],
  ['waiting 5, slots 2/3', 'waiting 5, slots 1/3', 'moving'],
  ['waiting 5, slots 2/-', 'waiting 5, slots 3/-', 'moving'],
  ['waiting 5, rate 9/10', 'waiting 5, rate 1/10', 'moving'],
  ['waiting 5', 'waiting 5', 'waiting'],
  ['waiting 5, slots 2/3, rate 9/10, paused', 'waiting 5, slots 2/3, rate 9/10, not paused', 'waiting'],
  ['waiting 5, slots 2/3', 'waiting 5, slots 2/4', 'waiting'],
  // A field that only one of the reads reports shows no change.
  ['waiting 5', 'waiting 5, slots 2/3, rate 9/10', 'waiting'],
  ['waiting 5, slots 2/3, rate 9/10', 'waiting 5', 'waiting'],
])('after the read "%s", the read "%s" shows the state %s', (previous, read, state) => {
  expect(flowStateOf(readOf(read), previous === undefined ? undefined : readOf(previous))).toBe(state);
});

it.each<[account: object | undefined, read: string, state: FlowState | undefined]>([
  [{ limit: 3, inUse: 3 }, 'waiting 5, slots 1/3', 'account_full'],
  [{ limit: 3, inUse: 4 }, 'waiting 5', 'account_full'],
  [{ limit: 3, inUse: 3 }, 'waiting 5, slots 3/3', 'parallelism_full'],
  [{ limit: 3, inUse: 3 }, 'waiting 0', 'idle'],
  [{ limit: 3, inUse: 2 }, 'waiting 5', 'waiting'],
  [{ limit: 3 }, 'waiting 5', 'waiting'],
  [{ inUse: 3 }, 'waiting 5', 'waiting'],
  [{}, 'waiting 5', 'waiting'],
  [undefined, 'waiting 5', 'waiting'],
])('with a parallelism of the account of %j, the read "%s" shows the state %s', (account, read, state) => {
  expect(flowStateOf(readOf(read), readOf(read), account)).toBe(state);
});

const few = fc.option(fc.nat(4), { nil: undefined });
const entry: fc.Arbitrary<FlowControlEntry> = fc.record({
  key: fc.constant('key'),
  waitlistSize: fc.nat(2),
  parallelismLimit: few,
  parallelismInUse: few,
  rateLimit: few,
  rateUsed: few,
  paused: fc.option(fc.boolean(), { nil: undefined }),
});

const account = fc.option(fc.record({ limit: few, inUse: few }), { nil: undefined });

it('every key has the first state whose condition holds; a condition on an unreported field never holds', () => {
  fc.assert(
    fc.property(entry, fc.option(entry, { nil: undefined }), account, (key, previous, account) => {
      const changed = (['waitlistSize', 'parallelismInUse', 'rateUsed'] as const).filter(
        name => key[name] !== undefined && previous?.[name] !== undefined && key[name] !== previous[name],
      );
      const holds: Record<FlowState, boolean> = {
        paused: key.paused === true,
        idle: key.waitlistSize === 0,
        rate_limited: Number(key.rateUsed) >= Number(key.rateLimit),
        parallelism_full: Number(key.parallelismInUse) >= Number(key.parallelismLimit),
        account_full: Number(account?.inUse) >= Number(account?.limit),
        moving: changed.length > 0,
        waiting: previous !== undefined && changed.length === 0,
      };
      const state = flowStateOf(key, previous, account);
      expect(state).toBe(FLOW_STATES.find(each => holds[each]));
      if (previous) expect(state).toBeDefined();
      if (key.waitlistSize === 0) expect(['paused', 'idle']).toContain(state);
    }),
    { numRuns: runs(1000) },
  );
});
