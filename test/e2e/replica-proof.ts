import { expect } from 'vitest';
import { atThisLoad, eventually } from '../support/eventually.ts';
import {
  gapsOf,
  type Isolation,
  isIsolated,
  judgeDeletes,
  judgeOneAtATime,
  judgeTold,
  type Poll,
} from '../support/replica-judge.ts';
import type { StallMeter } from '../support/stall-meter.ts';
import { CONCURRENCY, REQUESTS_PER_DAY, type Scene } from './replica-scene.ts';
import { look, type watchReplicas } from './replica-watch.ts';

/** How long before its death a replica may have put what it spent of the day's budget into the store, milliseconds. */
const BUDGET_SAVED_EVERY = 15_000;

/** What was done to the replicas. Times: milliseconds of the monotonic clock. */
export interface Course {
  /** Until then nothing was. */
  readonly quiet: { readonly from: number; readonly to: number };
  readonly isolations: readonly Isolation[];
  /** When replicas were killed, paused, or cut off for longer than their leases: what they spent and told shortly before may be forgotten. */
  readonly losses: readonly Isolation[];
  /** How often each account was gained, by account. */
  epochs(): Promise<ReadonlyMap<string, number>>;
}

const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;

/** Waits until every account is held by exactly one of the replicas that run. */
export const allHeld = (scene: Scene, watch: ReturnType<typeof watchReplicas>) =>
  eventually(async () => {
    const holders = await watch.holders();
    expect([...holders].filter(([, by]) => by.length !== 1)).toEqual([]);
    // Each has its share; what is of no account counts as one more.
    const shares = scene.running().map(({ name }) => [...holders.values()].filter(([by]) => by === name).length);
    expect(Math.max(...shares) - Math.min(...shares), `shares ${shares}`).toBeLessThanOrEqual(2);
  });

/** Waits until the counters of all accounts say what happened, and gives how many do. */
export const allCounted = (scene: Scene) =>
  eventually(async () => {
    const expected = scene.expected();
    const seen = new Map<string, number>();
    for (const replica of scene.running()) {
      const { held, counters } = await look(replica);
      for (const [series, value] of counters) {
        if (!/^delivery_(events|messages_finished)_total/.test(series) || value === 0) continue;
        if (held.has(/account="([^"]*)"/.exec(series)?.[1] ?? '')) seen.set(series, value);
      }
    }
    const off = [...new Set([...expected.keys(), ...seen.keys()])].filter(key => expected.get(key) !== seen.get(key));
    expect(off.map(key => `${key}: ${seen.get(key)}, and there were ${expected.get(key)}`).slice(0, 5)).toEqual([]);
    return [...expected.values()].reduce((sum, value) => sum + value, 0);
  });

/**
 * Waits until what `stir` changed was told and done: as many alerts of each state as there must have been, and every stuck
 * callback is cancelled. What was told once too often ends the wait, as it stays so. What a replica tells in its isolation does
 * not count: it can't know that another goes on, and an alert told twice is better than one that is never told.
 */
export async function allDone(
  scene: Scene,
  must: { readonly firing: number; readonly resolved: number },
  isolations: readonly Isolation[],
) {
  const told = (status: 'firing' | 'resolved') => [
    ...new Set(
      scene.told
        .filter(each => each.status === status && !isIsolated(each, isolations))
        .map(({ account, startsAt }) => `${account} since ${startsAt}`),
    ),
  ];
  await eventually(() => {
    expect(told('firing').length).toBeGreaterThanOrEqual(must.firing);
    expect(told('resolved').length).toBeGreaterThanOrEqual(must.resolved);
    const cancelled = scene.cancelled();
    expect(scene.stuck.filter(id => !cancelled.includes(id))).toEqual([]);
  });
  for (const status of ['firing', 'resolved'] as const) {
    const all = told(status).sort();
    expect(all.length, `${status}: ${all.join(', ')}`).toBe(must[status]);
  }
}

function judgeGaps(
  scene: Scene,
  polls: readonly Poll[],
  { quiet, from, to, stalls }: { quiet: Course['quiet']; from: number; to: number; stalls: StallMeter },
) {
  const length = (gap: { from: number; to: number }) => gap.to - gap.from;
  // What an interval is on this machine, its jitter and all other work of the replicas included.
  const [usual] = gapsOf(polls, scene.names, quiet.from, quiet.to);
  const interval = Math.max(scene.every, usual ? length(usual) : 0);
  const gaps = gapsOf(polls, scene.names, from, to);
  const limit = (gap: { from: number; to: number }) =>
    // Replicas look for free accounts five times in a lease.
    atThisLoad(scene.lease * 1.2 + interval) + stalls.between(gap.from, gap.to);
  return { interval, longest: gaps[0] ? length(gaps[0]) : 0, tooLong: gaps.filter(gap => length(gap) > limit(gap)) };
}

/** By account, how much more the service was asked than the day's budget knows; and how much may have been forgotten. */
async function judgeBudget(scene: Scene, losses: Course['losses'], epochs: ReadonlyMap<string, number>) {
  const spent = new Map<string, number>();
  for (const replica of scene.running()) {
    const { held, remaining } = await look(replica);
    for (const account of held) spent.set(account, REQUESTS_PER_DAY - (remaining.get(account) ?? 0));
  }
  const byAccount = Map.groupBy(scene.polls(), ({ account }) => account);
  let [asked, known] = [0, 0];
  const faults: string[] = [];
  for (const account of scene.names) {
    const own = byAccount.get(account) ?? [];
    const mayBeLost = own.filter(({ replica, start }) =>
      losses.some(loss => loss.replica === replica && start >= loss.from - BUDGET_SAVED_EVERY && start <= loss.to),
    ).length;
    const counted = spent.get(account) ?? 0;
    asked += own.length;
    known += counted;
    // While the numbers are read, rounds go on.
    const newer = own.filter(({ end }) => end > performance.now() - 5000).length;
    // A request that was paid for and given up before its first byte: some may be, whenever a replica lets an account go.
    const givenUp = counted - own.length;
    if (givenUp > CONCURRENCY * (epochs.get(account) ?? 0) || -givenUp > mayBeLost + newer) {
      faults.push(`${account}: ${own.length} requests, ${counted} in the budget, ${mayBeLost} may be lost`);
    }
  }
  return { asked, known, faults };
}

/** Judges the whole run, and prints its numbers. */
export async function judge(scene: Scene, watch: ReturnType<typeof watchReplicas>, stalls: StallMeter, course: Course) {
  const counted = await allCounted(scene);
  const to = performance.now();
  const epochs = await course.epochs();
  const budget = await judgeBudget(scene, course.losses, epochs);
  const polls = scene.polls();
  const away = scene.isolations();
  const one = judgeOneAtATime(polls, epochs, [...course.isolations, ...away]);
  const gaps = judgeGaps(scene, polls, { ...course, from: course.quiet.from, to, stalls });
  const deletes = judgeDeletes(polls);
  const toldOutside = scene.told.filter(each => !isIsolated(each, course.isolations));
  const told = judgeTold(toldOutside, [...course.losses, ...away]);
  const numbers = {
    replicas: scene.replicas.length,
    accounts: scene.names.length,
    'events and messages counted, as many as there were': counted,
    'values of counters compared': watch.counters.seen,
    'of these went back': watch.counters.faults.length,
    scrapes: watch.scrapes,
    'requests to the service': polls.length,
    'changes of the replica that polls an account': one.handOvers,
    'requests of two replicas at a time': one.faults.length,
    'times that a replica could not ask the database': away.length,
    'requests in these times': polls.filter(poll => isIsolated(poll, away)).length,
    'longest time between two requests for an account': seconds(gaps.longest),
    'the same where nothing was done': seconds(gaps.interval),
    'this process was kept from running for': seconds(stalls.between(course.quiet.from, to)),
    DELETEs: polls.filter(({ method }) => method === 'DELETE').length,
    'callbacks that got stuck': scene.stuck.length,
    'alerts told': scene.told.length,
    'of these in isolation': scene.told.length - toldOutside.length,
    'of the others twice': told.length,
    'requests in the budgets': `${budget.known} of ${budget.asked}`,
  };
  process.stdout.write(
    `${Object.entries(numbers)
      .map(([what, is]) => `${what}: ${is}`)
      .join('\n')}\n`,
  );
  expect(watch.failures).toEqual([]);
  expect(watch.counters.seen).toBeGreaterThan(0);
  expect(watch.counters.faults.slice(0, 10)).toEqual([]);
  expect(one.faults.slice(0, 10)).toEqual([]);
  expect(gaps.tooLong.slice(0, 10).map(({ account, from, to }) => `${account} ${seconds(to - from)}`)).toEqual([]);
  expect(deletes).toEqual([]);
  expect(polls.filter(({ method }) => method === 'DELETE')).toHaveLength(scene.stuck.length);
  expect(told).toEqual([]);
  expect(budget.faults.slice(0, 10)).toEqual([]);
}
