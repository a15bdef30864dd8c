import type { RunsFacts } from '../../../src/collectors/index.ts';
import { type CalmAccount, NOON } from '../../support/calm-account.ts';
import { ago, type Case, judged, listed, MINUTE, schedule } from './check-scene.ts';

const stuckRuns = (count: number, hasMore: boolean, url?: string): RunsFacts => {
  const oldest = { runId: 'wfr_123', url, state: 'started', createdAt: ago(168), labels: [] } as const;
  return { olderThan: 60 * MINUTE, count, hasMore, oldest };
};

/** Cases about the plan, limits of keys, schedules, workflow runs and auto-cancel. */
export const SERVICE_DATA: readonly Case[] = [
  [
    'a daily quota that ends before midnight',
    { change: ({ plan }) => Object.assign(plan.usage, { requestsToday: 351_000 }) },
    [
      'warning quota_ending 0 min: At today’s average rate, the daily quota of 500,000 requests ends at about 16:50 UTC.',
    ],
  ],
  [
    'no end of a daily quota of which less than half is used, or that lasts until midnight',
    { change: ({ plan }) => Object.assign(plan.usage, { requestsToday: 246_000 }) },
    [],
  ],
  [
    'a daily quota that is used up',
    { change: ({ plan }) => Object.assign(plan.usage, { requestsToday: 512_000 }) },
    ['warning quota_ending 0 min: The daily quota of 500,000 requests is used up: 512,000 requests today.'],
  ],
  [
    'no end of a daily quota from yesterday’s number',
    {
      change({ plan }) {
        Object.assign(plan.usage, { requestsToday: 512_000, at: ago(721) });
      },
    },
    [],
  ],
  [
    'no quota of an unlimited plan',
    {
      change({ plan }) {
        Object.assign(plan, { limits: { dlq_size: 10_000 } });
        Object.assign(plan.usage, { requestsToday: 9_000_000 });
      },
    },
    [],
  ],
  [
    'an account that was suspended',
    {
      change: ({ plan }) =>
        Object.assign(plan.read, {
          state: 'passive',
          change: { at: ago(90), text: 'plan from paid to free, state from active to passive' },
        }),
    },
    [
      'warning account_suspended 0 min: The state of the account is passive: the service may not deliver its messages.',
      'info plan_changed 90 min: The account changed: plan from paid to free, state from active to passive, seen at 10:30:00 UTC.',
    ],
  ],
  [
    'no change of the plan after a day',
    { change: ({ plan }) => Object.assign(plan.read, { change: { at: ago(1441), text: 'plan from paid to free' } }) },
    [],
  ],
  [
    'a queue of another size than the management API reports',
    { change: ({ plan }) => Object.assign(plan.usage, { dlqMessages: 130 }) },
    ['info dlq_size_differs 0 min: The management API counts 130 dead letters, the agent 100.'],
  ],
  [
    'no difference between the sizes of a queue that changes',
    {
      change: ({ plan }) => Object.assign(plan.usage, { dlqMessages: 130 }),
      courses: { delivery_dlq_messages: minutes => (minutes > 15 ? 140 : 100) },
    },
    [],
  ],
  [
    'a schedule that does not start',
    { change: account => Object.assign(schedule(account), { ...judged('missed'), missed: 5, lastStarted: ago(120) }) },
    ['warning schedule_missed (reports) 120 min: Schedule reports: no message since 10:00:00 UTC.'],
  ],
  [
    'a schedule with late messages',
    { change: account => Object.assign(schedule(account), { ...judged('late'), late: 2, lastDelivered: ago(120) }) },
    ['warning schedule_late (reports) 0 min: Schedule reports: not delivered in time, last delivery at 10:00:00 UTC.'],
  ],
  [
    'a daily schedule with failed messages',
    {
      change: account =>
        Object.assign(schedule(account), { lastFailed: NOON, lastDelivered: ago(1500), next: ago(-1380) }),
    },
    [
      'warning schedule_late (reports) 0 min: Schedule reports: its last messages failed, last delivery at 2026-03-13 11:00:00 UTC.',
    ],
  ],
  [
    'no problem for a schedule that runs every minute, with a failed message',
    { change: account => Object.assign(schedule(account), { lastFailed: NOON }) },
    [],
  ],
  [
    'limits that were changed',
    {
      change({ limits, keys }) {
        keys.push({ ...(keys[0] as CalmAccount['keys'][number]), key: 'fal', pinned: ['parallelism'] });
        const read = { from: 40, to: 200, at: ago(57) };
        limits.set('fal', {
          parallelism: { value: 200, changes: 3, last: read },
          rate: { value: 5, changes: 1, last: { from: 5000, to: 5, at: ago(3000) } },
          period: { value: 60, changes: 1, last: { from: 1, to: 60, at: ago(59) } },
        });
        limits.set('gone', { rate: { value: 5, changes: 1, last: { from: 10, to: 5, at: ago(1439) } } });
        limits.set('unchanged', { rate: { value: 5, changes: 0 } });
        limits.set('long ago', { rate: { value: 5, changes: 1, last: { ...read, at: ago(1440) } } });
      },
    },
    [
      'info limit_changed (fal) 57 min: The parallelism of fal was changed from 40 to 200 by 11:03 UTC. The rate period of fal was changed from 1 s to 1 min by 11:01 UTC.',
      'info limit_changed (gone) 1439 min: The rate of gone was changed from 10 to 5 by 2026-03-13 12:01 UTC.',
    ],
  ],
  [
    'a listed schedule that does not start',
    {
      change: account =>
        listed(account, { lastRunAt: ago(120) }, { missed: 2, missedAt: ago(60), lastRunAt: ago(120) }),
    },
    ['warning schedule_missed (scd_1) 120 min: Schedule scd_1: no message since 10:00:00 UTC.'],
  ],
  [
    'a paused schedule that is configured and listed, which misses no start',
    {
      change(account) {
        Object.assign(schedule(account), { ...judged('missed'), missed: 5, lastStarted: ago(120) });
        const [row] = account.scheduleList.listed;
        Object.assign(row ?? {}, { name: 'reports', isConfigured: true });
        listed(account, { paused: true }, { pausedSince: ago(60), sawPause: true, missed: 5, missedAt: ago(60) });
      },
    },
    [],
  ],
  [
    'a schedule that is configured and listed, whose missed start is reported once',
    {
      change(account) {
        Object.assign(schedule(account), { ...judged('missed'), missed: 5, lastStarted: ago(120) });
        const [row] = account.scheduleList.listed;
        Object.assign(row ?? {}, { name: 'reports', isConfigured: true });
        listed(account, { lastRunAt: ago(120) }, { missed: 5, missedAt: ago(60), lastRunAt: ago(120) });
      },
    },
    ['warning schedule_missed (reports) 120 min: Schedule reports: no message since 10:00:00 UTC.'],
  ],
  [
    'a listed schedule with an error',
    { change: account => listed(account, { error: 'url group not found' }) },
    [
      'warning schedule_failing (scd_1) 30 min: Schedule scd_1: the last run at 11:30:00 UTC failed: url group not found.',
    ],
  ],
  [
    'a listed schedule of which all messages failed',
    { change: account => listed(account, { lastRunStates: { in_progress: 0, success: 0, fail: 2, unknown: 0 } }) },
    [
      'warning schedule_failing (scd_1) 30 min: Schedule scd_1: the last run at 11:30:00 UTC failed: all its messages failed.',
    ],
  ],
  [
    'no problem for a listed schedule of which some messages failed, or are still in progress',
    { change: account => listed(account, { lastRunStates: { in_progress: 1, success: 0, fail: 2, unknown: 0 } }) },
    [],
  ],
  [
    'a schedule that was paused more than a day ago, while the agent watched',
    { change: account => listed(account, { paused: true }, { pausedSince: ago(1500), sawPause: true }) },
    [
      'warning schedule_paused (scd_1) 1500 min: Schedule scd_1 is paused: the agent first read the pause at 2026-03-13 11:00:00 UTC.',
    ],
  ],
  [
    'no problem for a schedule that has always been paused',
    { change: account => listed(account, { paused: true }, { pausedSince: ago(1500), sawPause: false }) },
    [],
  ],
  [
    'no problem for a schedule that was paused less than a day ago',
    { change: account => listed(account, { paused: true }, { pausedSince: ago(1439), sawPause: true }) },
    [],
  ],
  [
    'a schedule that started unexpectedly',
    { change: account => listed(account, {}, { unexpected: 1, unexpectedAt: ago(20) }) },
    ['warning schedule_unexpected (scd_1) 0 min: Schedule scd_1 started at 11:40:00 UTC, although no start was due.'],
  ],
  [
    'no problem for a schedule that started unexpectedly more than an hour ago',
    { change: account => listed(account, {}, { unexpected: 1, unexpectedAt: ago(61) }) },
    [],
  ],
  [
    'a schedule that the service no longer lists',
    {
      change({ scheduleList }) {
        const gone = { ...scheduleList.listed[0]?.history, id: 'old', paused: false, goneSince: ago(60) };
        const [history, young] = [
          gone,
          { ...gone, seenAt: ago(100) },
        ] as (typeof scheduleList.gone)[number]['history'][];
        scheduleList.gone = [
          { name: 'old', history },
          { name: 'young', history: young },
        ] as typeof scheduleList.gone;
      },
    },
    ['warning schedule_gone (old) 60 min: Schedule old: the service has not listed it since 11:00:00 UTC.'],
  ],
  [
    'workflow runs that do not end',
    {
      change: account =>
        Object.assign(account, { runs: stuckRuns(3, true, 'https://app.example.com/api/onboard?token=secret') }),
    },
    [
      'warning run_stuck 108 min: At least 3 workflow runs have been in progress for more than 1 h, one of them since 09:12:00 UTC: https://app.example.com/api/onboard?…, run wfr_123.',
    ],
  ],
  [
    'a single workflow run without a URL that does not end',
    { change: account => Object.assign(account, { runs: stuckRuns(1, false) }) },
    [
      'warning run_stuck 108 min: 1 workflow run has been in progress for more than 1 h, since 09:12:00 UTC: run wfr_123.',
    ],
  ],
  [
    'no problem if the number of workflow runs is unknown',
    { change: account => Object.assign(account, { runs: { ...account.runs, count: undefined, hasMore: true } }) },
    [],
  ],
  [
    'suspended auto-cancel',
    {
      autoCancel: {
        breakers: new Map(Object.entries({ errors: true, candidates: false })),
        isPaused: true,
        unresolved: new Map([['hung', NOON - 40 * MINUTE]]),
      },
    },
    [
      'critical cancel_unresolved (hung) 40 min: A cancel by the rule hung has had no known outcome for 40 min.',
      'warning breaker_open (errors) 0 min: The breaker errors is open: nothing is cancelled until an operator resets it.',
      'info auto_cancel_paused 0 min: Auto-cancel is paused: nothing is cancelled until an operator resumes it.',
    ],
  ],
  [
    'auto-cancel that could not be opened',
    { change: account => Object.assign(account, { autoCancelFailure: new Error('the row 1 is damaged') }) },
    ['warning auto_cancel_failed 0 min: Auto-cancel is off: the row 1 is damaged'],
  ],
];
