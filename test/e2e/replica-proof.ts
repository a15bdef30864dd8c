import { expect } from 'vitest';
import { atThisLoad, eventually } from '../support/eventually.ts';
import {
  checkDeletes,
  checkNotifications,
  checkOneAtATime,
  gapsOf,
  type Isolation,
  isIsolated,
  type Poll,
} from '../support/replica-checks.ts';
import type { StallMeter } from '../support/stall-meter.ts';
import { CONCURRENCY, REQUESTS_PER_DAY, type Scene } from './replica-scene.ts';
import { scrapeReplica, type watchReplicas } from './replica-watch.ts';

/** Maximum age of the stored daily budget when a replica is killed (ms). */
const BUDGET_SAVED_EVERY = 15_000;

/** Disturbances of the replicas. Times are in milliseconds of the monotonic clock. */
export interface Course {
  /** Period without disturbances at the start. */
  readonly quiet: { readonly from: number; readonly to: number };
  readonly isolations: readonly Isolation[];
  /**
   * Periods in which replicas were killed, paused, or cut off for longer than their leases. Requests and notifications
   * shortly before such a period may be unrecorded.
   */
  readonly losses: readonly Isolation[];
  /** Returns how many times the lease was acquired, by account. */
  epochs(): Promise<ReadonlyMap<string, number>>;
}

const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;

/** Waits until exactly one running process leads and shows every account. */
export const allHeld = (watch: ReturnType<typeof watchReplicas>) =>
  eventually(async () => {
    const holders = await watch.holders();
    expect([...holders].filter(([, by]) => by.length !== 1)).toEqual([]);
    expect(new Set([...holders.values()].flat()).size).toBe(1);
  });

/** Waits until the counters of all accounts match the events, and returns the number of events. */
export const allCounted = (scene: Scene) =>
  eventually(async () => {
    const expected = scene.expected();
    const seen = new Map<string, number>();
    for (const replica of scene.running()) {
      const { held, counters } = await scrapeReplica(replica);
      for (const [series, value] of counters) {
        if (!/^delivery_(events|messages_finished)_total/.test(series) || value === 0) continue;
        if (held.has(/account="([^"]*)"/.exec(series)?.[1] ?? '')) seen.set(series, value);
      }
    }
    const off = [...new Set([...expected.keys(), ...seen.keys()])].filter(key => expected.get(key) !== seen.get(key));
    expect(off.map(key => `${key}: ${seen.get(key)} instead of ${expected.get(key)}`).slice(0, 5)).toEqual([]);
    return [...expected.values()].reduce((sum, value) => sum + value, 0);
  });

/**
 * Waits until the alerts changed by `stir` have been sent and every stuck callback is cancelled. Fails if more alerts were
 * sent. Alerts sent by isolated replicas are ignored: an isolated replica cannot detect a takeover, and a duplicate is
 * better than a lost alert.
 */
export async function allDone(
  scene: Scene,
  must: { readonly firing: number; readonly resolved: number },
  isolations: readonly Isolation[],
) {
  const sent = (status: 'firing' | 'resolved') => [
    ...new Set(
      scene.notifications
        .filter(each => each.status === status && !isIsolated(each, isolations))
        .map(({ account, startsAt }) => `${account} since ${startsAt}`),
    ),
  ];
  await eventually(() => {
    expect(sent('firing').length).toBeGreaterThanOrEqual(must.firing);
    expect(sent('resolved').length).toBeGreaterThanOrEqual(must.resolved);
    const cancelled = scene.cancelled();
    expect(scene.stuck.filter(id => !cancelled.includes(id))).toEqual([]);
  });
  for (const status of ['firing', 'resolved'] as const) {
    const all = sent(status).sort();
    expect(all.length, `${status}: ${all.join(', ')}`).toBe(must[status]);
  }
}

function checkGaps(
  scene: Scene,
  polls: readonly Poll[],
  { quiet, from, to, stalls }: { quiet: Course['quiet']; from: number; to: number; stalls: StallMeter },
) {
  const length = (gap: { from: number; to: number }) => gap.to - gap.from;
  // The usual interval between polls on this machine, including jitter and other work of the replicas.
  const [usual] = gapsOf(polls, scene.names, quiet.from, quiet.to);
  const interval = Math.max(scene.every, usual ? length(usual) : 0);
  const gaps = gapsOf(polls, scene.names, from, to);
  const limit = (gap: { from: number; to: number }) =>
    // A standby reads the lease fifteen times per lease time, then opens all accounts.
    atThisLoad(scene.lease * 1.2 + interval) + stalls.between(gap.from, gap.to);
  return { interval, longest: gaps[0] ? length(gaps[0]) : 0, tooLong: gaps.filter(gap => length(gap) > limit(gap)) };
}

/** Compares the requests of each account with its daily budget, including requests that may be unrecorded. */
async function checkBudget(scene: Scene, losses: Course['losses'], epochs: ReadonlyMap<string, number>) {
  const spent = new Map<string, number>();
  for (const replica of scene.running()) {
    const { held, remaining } = await scrapeReplica(replica);
    for (const account of held) spent.set(account, REQUESTS_PER_DAY - (remaining.get(account) ?? 0));
  }
  const byAccount = Map.groupBy(scene.polls(), ({ account }) => account);
  let [requests, inBudgets] = [0, 0];
  const faults: string[] = [];
  for (const account of scene.names) {
    const own = byAccount.get(account) ?? [];
    const mayBeLost = own.filter(({ replica, start }) =>
      losses.some(loss => loss.replica === replica && start >= loss.from - BUDGET_SAVED_EVERY && start <= loss.to),
    ).length;
    const counted = spent.get(account) ?? 0;
    requests += own.length;
    inBudgets += counted;
    // Rounds continue while the test reads the numbers.
    const newer = own.filter(({ end }) => end > performance.now() - 5000).length;
    // Requests that were counted but aborted before their first byte, which is possible whenever a replica releases an
    // account.
    const givenUp = counted - own.length;
    if (givenUp > CONCURRENCY * (epochs.get(account) ?? 0) || -givenUp > mayBeLost + newer) {
      faults.push(`${account}: ${own.length} requests, ${counted} in the budget, ${mayBeLost} may be lost`);
    }
  }
  return { requests, inBudgets, faults };
}

export async function checkCourse(
  scene: Scene,
  watch: ReturnType<typeof watchReplicas>,
  stalls: StallMeter,
  course: Course,
) {
  const counted = await allCounted(scene);
  const to = performance.now();
  const epochs = await course.epochs();
  const budget = await checkBudget(scene, course.losses, epochs);
  const polls = scene.polls();
  const outages = scene.isolations();
  const one = checkOneAtATime(polls, epochs, [...course.isolations, ...outages]);
  const gaps = checkGaps(scene, polls, { ...course, from: course.quiet.from, to, stalls });
  const deletes = checkDeletes(polls);
  const sentOutside = scene.notifications.filter(each => !isIsolated(each, course.isolations));
  const duplicates = checkNotifications(sentOutside, [...course.losses, ...outages]);
  const numbers = {
    replicas: scene.replicas.length,
    accounts: scene.names.length,
    'events and messages counted': counted,
    'counter values compared': watch.counters.seen,
    'counter values that decreased': watch.counters.faults.length,
    scrapes: watch.scrapes,
    'requests to the service': polls.length,
    'changes of the polling process of an account': one.handOvers,
    'processes that exited after a takeover': scene.exits.length,
    'concurrent requests of two replicas for an account': one.faults.length,
    'periods without database access of a replica': outages.length,
    'requests in these periods': polls.filter(poll => isIsolated(poll, outages)).length,
    'longest time between two requests for an account': seconds(gaps.longest),
    'longest time between two requests without disturbances': seconds(gaps.interval),
    'the test process was stalled for': seconds(stalls.between(course.quiet.from, to)),
    DELETEs: polls.filter(({ method }) => method === 'DELETE').length,
    'callbacks that got stuck': scene.stuck.length,
    'alerts sent': scene.notifications.length,
    'alerts sent in isolation': scene.notifications.length - sentOutside.length,
    'duplicates of other alerts': duplicates.length,
    'requests in the budgets': `${budget.inBudgets} of ${budget.requests}`,
  };
  process.stdout.write(
    `${Object.entries(numbers)
      .map(([what, is]) => `${what}: ${is}`)
      .join('\n')}\n`,
  );
  expect(scene.exits.filter(exit => !exit.endsWith(' 1'))).toEqual([]);
  expect(watch.failures).toEqual([]);
  expect(watch.counters.seen).toBeGreaterThan(0);
  expect(watch.counters.faults.slice(0, 10)).toEqual([]);
  expect(one.faults.slice(0, 10)).toEqual([]);
  expect(gaps.tooLong.slice(0, 10).map(({ account, from, to }) => `${account} ${seconds(to - from)}`)).toEqual([]);
  expect(deletes).toEqual([]);
  expect(polls.filter(({ method }) => method === 'DELETE')).toHaveLength(scene.stuck.length);
  expect(duplicates).toEqual([]);
  expect(budget.faults.slice(0, 10)).toEqual([]);
}
