import { describe, expect, it } from 'vitest';
import type { CalmAccount } from '../../support/calm-account.ts';
import {
  ago,
  check as checkAt,
  failing,
  finish,
  finished,
  key,
  partial,
  queueOf,
  rounds,
  type Scene,
  unread,
  waitlist,
  withdraw,
} from './check-scene.ts';

type Collector = 'dlq' | 'events' | 'flow_control';

/** Runs all checks. The only waitlist was longer before, so it is not stalled. */
const check = (scene: Scene) => checkAt({ ...scene, courses: { [waitlist]: () => 20, ...scene.courses } });

/** Returns the kinds with a check that has no result for at least one subject. */
const unknownIn = (scene: Scene): string[] => [
  ...new Set(check(scene).flatMap(({ check: { kind }, unknown }) => (unknown.length > 0 ? [kind] : []))),
];

const ofCollector = (collector: Collector) =>
  [...new Set(check({}).flatMap(({ check }) => (check.collector === collector ? [check.kind] : [])))].sort();

describe('unknown results', () => {
  it('all checks have a result for a healthy account with a complete history', () => {
    expect(unknownIn({})).toEqual([]);
  });

  const CHANGES = {
    stale: (account, collector) => rounds(account, failing(true, 'server', 'status 500'), collector),
    withdrawn(account, collector) {
      rounds(account, failing(true, 'server', 'status 500'), collector);
      withdraw(account, collector);
    },
    unread: (account, collector) => rounds(account, unread, collector),
    partial: (account, collector) => rounds(account, partial, collector),
  } satisfies Record<string, (account: CalmAccount, collector: Collector) => void>;

  it.each(
    (['dlq', 'events', 'flow_control'] as const).flatMap(collector =>
      (['stale', 'withdrawn', 'unread', 'partial'] as const).map(data => [collector, data] as const),
    ),
  )('among the checks that read data, only %s checks are unknown while their data is %s', (collector, data) => {
    const results = check({ change: account => CHANGES[data](account, collector) });
    const unknown = results.filter(({ check, unknown }) => check.collector !== undefined && unknown.length > 0);
    const expected = ofCollector(collector).filter(kind => data !== 'partial' || kind !== 'dlq_nearly_full');
    // The event log shows whether a queue delivers.
    if (collector === 'events' && data !== 'partial') expected.push('queue_blocked');
    expect([...new Set(unknown.map(({ check }) => check.kind))].sort()).toEqual(expected.sort());
  });

  it('an outage is unknown until a collector has been read or has failed', () => {
    const change = (account: CalmAccount) => rounds(account, unread);
    const [outage] = check({ change }).filter(({ check }) => check.kind === 'service_unavailable');
    expect(outage).toMatchObject({ findings: [], unknown: [{ isUnknown: true }] });
  });

  it('checks of a disabled collector have no results', () => {
    const change = ({ collectors }: CalmAccount) => {
      delete (collectors as Partial<CalmAccount['collectors']>).dlq;
    };
    const dlq = check({ change }).filter(({ check }) => check.collector === 'dlq');
    expect(dlq).toEqual([]);
  });

  it('checks of partial data report findings and are unknown for everything else', () => {
    const change = (account: CalmAccount) => {
      rounds(account, partial, 'dlq');
      queueOf(account).oldestEntered = ago(2 * 24 * 60);
    };
    const [found] = check({ change }).filter(({ check }) => check.kind === 'dlq_old');
    expect(found).toMatchObject({ findings: [expect.anything()], unknown: [{ isUnknown: true }] });
  });

  it.each<[string, Scene, readonly string[]]>([
    [
      'queue growth without the size an hour ago',
      { courses: { delivery_dlq_messages: minutes => (minutes > 40 ? undefined : 100) } },
      ['dlq_growing', 'dlq_first_entry'],
    ],
    [
      'finished messages without history',
      { courses: { [finished('failed')]: () => undefined } },
      ['messages_failing', 'messages_failing_slowly', 'messages_late', 'deliveries_stalled'],
    ],
    [
      'event-log gaps with half an hour of history',
      { courses: { delivery_event_log_gaps_total: minutes => (minutes > 30 ? undefined : 0) } },
      ['event_log_gap'],
    ],
    [
      'a larger queue after an outage of the agent',
      {
        outage: { from: 12, to: 8 },
        change: account => Object.assign(queueOf(account), { messages: 106 }),
        courses: { delivery_dlq_messages: minutes => (minutes < 60 ? 106 : 50) },
      },
      ['dlq_growing'],
    ],
    ['a queue of the same size after an outage of the agent', { outage: { from: 12, to: 8 } }, []],
    [
      'a smaller queue after an outage of the agent',
      {
        outage: { from: 12, to: 8 },
        change: account => Object.assign(queueOf(account), { messages: 99 }),
        courses: { delivery_dlq_messages: () => 100 },
      },
      [],
    ],
    [
      'a growing waitlist after an outage of the agent',
      {
        outage: { from: 18, to: 16 },
        change: account => Object.assign(key(account), { waitlistSize: 2310 }),
        courses: { [waitlist]: minutes => 2310 - 20 * minutes },
      },
      ['waitlist_growing'],
    ],
    [
      'an unreadable parallelism of the account',
      { change: one => Object.assign(one, { parallelism: {} }) },
      ['account_full'],
    ],
    [
      'a queue whose messages the event log does not list',
      { change: ({ events }) => events.queues.deliveries.clear() },
      ['queue_blocked'],
    ],
    [
      'a queue without deliveries since the agent started ten minutes ago',
      {
        change({ events }) {
          events.queues.from = ago(10);
          events.queues.deliveries.set('mail', 0);
        },
      },
      ['queue_blocked'],
    ],
    [
      'an unreadable length of a queue',
      { change: ({ queue }) => Object.assign(queue, { lag: undefined }) },
      ['queue_paused', 'queue_blocked'],
    ],
    [
      'an account without usage',
      { change: ({ plan }) => Object.assign(plan, { usage: { at: ago(1) } }) },
      ['quota_ending', 'dlq_size_differs'],
    ],
    [
      'an unread management API',
      {
        change({ collectors, plan }) {
          collectors.account.rounds.forEach(unread);
          Object.assign(plan, { usage: undefined });
        },
      },
      ['quota_ending', 'account_suspended', 'plan_changed', 'dlq_size_differs'],
    ],
    ['no management API', { change: ({ collectors }) => collectors.account.rounds.pop() }, []],
    ['no parallelism of the account', { change: one => Object.assign(one, { parallelism: undefined }) }, []],
    ['a waitlist without history', { courses: { [waitlist]: () => undefined } }, ['waitlist_stalled']],
  ])('checks are unknown without their data: %s', (_what, scene, kinds) => {
    expect(unknownIn(scene)).toEqual(kinds);
  });

  it('checks for stale and missing data are unknown before the first read by this process', () => {
    const change = (account: CalmAccount) => rounds(account, unread);
    expect(unknownIn({ change })).toEqual(expect.arrayContaining(['data_stale', 'round_stale']));
  });

  it('withdrawn data is stale, so that its alert is not resolved', () => {
    const change = (account: CalmAccount) => CHANGES.withdrawn(account, 'dlq');
    const found = check({ change }).filter(({ check }) => check.kind === 'data_stale');
    expect(found).toMatchObject([{ findings: [{ subject: 'dlq' }], unknown: [] }]);
  });

  it('checks of individual collectors are unknown while the service is unavailable', () => {
    const change = (account: CalmAccount) => rounds(account, failing(true, 'server', 'status 503'));
    const results = check({ change });
    const of = (kind: string) => results.filter(({ check }) => check.kind === kind);
    expect(of('service_unavailable')).toMatchObject([{ findings: [expect.anything()] }]);
    for (const { findings, unknown } of of('data_stale')) expect([findings.length, unknown.length]).toEqual([0, 1]);
  });

  it('slow-burn checks are unknown during a fast burn', () => {
    const results = check({
      change: account => finish(account, { delivered: 10_000, failed: 500 }),
      courses: {
        [finished('delivered')]: minutes => 10_000 - 10 * minutes,
        [finished('failed')]: minutes => 500 - 5 * minutes,
      },
    }).filter(({ check }) => check.kind.startsWith('messages_failing'));
    expect(results.map(({ findings, unknown }) => [findings.length, unknown.length])).toEqual([
      [1, 0],
      [0, 1],
    ]);
  });
});
