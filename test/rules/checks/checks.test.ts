import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { CHECK_KINDS } from '../../../src/model/check-kind.ts';
import type { AccountStatus } from '../../../src/model/status.ts';
import { AGENT_CHECKS, type AgentInput } from '../../../src/rules/checks/agent.ts';
import { BUILTIN_KINDS } from '../../../src/rules/checks/alerts.ts';
import { ACCOUNT_CHECKS, runChecks } from '../../../src/rules/checks/run.ts';
import { PROBLEM_KINDS, type Problem } from '../../../src/status/api/parts.ts';
import { byWeight, problemsOf } from '../../../src/status/problems.ts';
import { type CalmAccount, NOON } from '../../support/calm-account.ts';
import { MESSAGES } from './cases-of-messages.ts';
import { QUEUES } from './cases-of-queues.ts';
import { READING } from './cases-of-reading.ts';
import { SERVICE_DATA } from './cases-of-service-data.ts';
import {
  ago,
  finish,
  finished,
  key,
  MINUTE,
  problemLines,
  problems,
  queueOf,
  rounds,
  type Scene,
  unread,
  waitlist,
} from './check-scene.ts';

const agentProblemsOf = (input: AgentInput) =>
  problemsOf(runChecks(AGENT_CHECKS, input), null, { now: input.now, states: [] });

const CASES = [...READING, ...MESSAGES, ...QUEUES, ...SERVICE_DATA];

describe('accounts without problems', () => {
  it('a healthy account has no problems', () => {
    expect(problemLines({})).toEqual([]);
  });

  it('an account has no problems before the first read', () => {
    const nothing = (account: CalmAccount) => {
      rounds(account, unread);
      Object.assign(account, { budgetRemaining: undefined, isTokenRejected: undefined });
    };
    expect(problemLines({ change: nothing })).toEqual([]);
  });

  it('an account whose history has just started has no problems based on changes over time', () => {
    const change = (account: CalmAccount) => {
      Object.assign(queueOf(account), { messages: 900, entered: 9000 });
      account.events.log.overdue = 900;
      finish(account, { delivered: 1, failed: 900 });
      key(account).waitlistSize = 9000;
    };
    const names = ['delivery_dlq_messages', 'delivery_dlq_entered_total', 'delivery_messages_overdue_total'];
    const none = Object.fromEntries(
      [...names, finished('failed'), finished('delivered'), waitlist].map(name => [name, () => undefined]),
    );
    expect(problemLines({ change, courses: none })).toEqual([]);
  });
});

describe('problems that keep firing', () => {
  const growing = {
    kind: 'dlq_growing',
    startsAt: ago(40),
    text: 'The queue grew.',
  } as const;

  it('a problem whose alert keeps firing after its last finding is listed with its start and last text', () => {
    const states = [{ ...growing, isFiring: true, isClear: true }];
    expect(problemLines({ states })).toEqual(['warning dlq_growing 40 min: The queue grew.']);
  });

  it.each<[string, Scene]>([
    ['it is only pending', { states: [{ ...growing }] }],
    ['its last evaluation had no result', { states: [{ ...growing, isFiring: true }] }],
    [
      'its check has no result',
      {
        states: [{ ...growing, isFiring: true, isClear: true }],
        courses: { delivery_dlq_messages: () => undefined },
      },
    ],
  ])('a problem without a finding is not listed if %s', (_why, scene) => {
    expect(problemLines(scene)).toEqual([]);
  });

  it('a problem that is found has its start from the state machine and the text of the finding', () => {
    const change = (account: CalmAccount) => Object.assign(queueOf(account), { messages: 160, entered: 570 });
    expect(problemLines({ change, states: [{ ...growing, isFiring: true, isClear: true }] })).toEqual([
      expect.stringMatching(/^warning dlq_growing 40 min: 70 dead letters entered/),
    ]);
  });
});

describe('account problems', () => {
  it.each(CASES)('checks report the expected problems of an account: %s', (_what, scene, lines) => {
    expect(problemLines(scene)).toEqual(lines);
  });

  it('the test cases cover every kind of account problem', () => {
    const ofAccount = new Set(ACCOUNT_CHECKS.map(({ kind }) => kind));
    const tried = new Set(CASES.flatMap(([, scene]) => problems(scene).map(({ kind }) => kind)));
    expect([...ofAccount].filter(kind => !tried.has(kind))).toEqual([]);
    const known = new Set<Problem['kind']>([...ofAccount, ...[...AGENT_CHECKS].map(({ kind }) => kind)]);
    // Accounts over the display limit are not checked.
    expect(PROBLEM_KINDS.filter(kind => !known.has(kind))).toEqual(['not_shown']);
  });
});

it('byWeight orders problems by severity, then by start, the newest first', () => {
  const at = (minutes: number) => new Date(ago(minutes)).toISOString();
  const of = (severity: Problem['severity'], since: string | null): Problem => ({
    account: 'a',
    kind: 'dlq_old',
    severity,
    subject: null,
    since,
    text: '',
    runbook: null,
  });
  const ordered = [
    of('critical', at(1)),
    of('warning', at(2)),
    of('warning', at(9)),
    of('warning', null),
    of('info', at(99)),
  ];
  expect([...ordered].reverse().sort(byWeight)).toEqual(ordered);
});

describe('the table of kinds', () => {
  const all = [...ACCOUNT_CHECKS, ...AGENT_CHECKS];

  it('the table of kinds contains each kind of problem once', () => {
    expect(BUILTIN_KINDS.map(({ kind }) => kind).sort()).toEqual([...new Set(all.map(({ kind }) => kind))].sort());
    expect([...CHECK_KINDS].sort()).toEqual(BUILTIN_KINDS.map(({ kind }) => kind).sort());
  });

  it('all checks of a kind have its alert, severity and durations', () => {
    for (const { kind, alert, severity, for: pending, keepFiringFor } of BUILTIN_KINDS)
      for (const check of all.filter(each => each.kind === kind))
        expect(check, kind).toMatchObject({ alert, severity, for: pending, keepFiringFor });
  });

  it('each alert has a runbook', () => {
    const files = new Set(readdirSync(new URL('../../../docs/runbooks/', import.meta.url)));
    expect(BUILTIN_KINDS.map(({ alert }) => `${alert}.md`).filter(file => !files.has(file))).toEqual([]);
  });
});

describe('agent problems', () => {
  const round = { round: 'new', every: 1000, dataAt: 1, durationSeconds: 1, idle: undefined, stale: false };
  const status = (change: object): AccountStatus => ({
    account: 'a',
    up: true,
    collectors: [
      {
        collector: 'dlq',
        withdrawn: false,
        rounds: [{ ...round, success: true, complete: true, consecutiveFailures: 0, failure: undefined, ...change }],
      },
    ],
  });
  const notified = (outcome: string, count: number) => ({ notifier: 'ops', outcome, count });
  const agent = (evidence: Partial<Parameters<typeof agentProblemsOf>[0]>) =>
    agentProblemsOf({
      now: NOON,
      statuses: [status({})],
      notifications: [],
      lastReload: undefined,
      ...evidence,
    }).map(({ account, severity, kind, subject, since, text }) =>
      [account, severity, kind, subject, since, text].join(' | '),
    );

  it('the agent has no problems if at least one notification was delivered and the last reload succeeded', () => {
    expect(
      agent({ notifications: [notified('sent', 1), notified('failed', 9)], lastReload: { at: 1, faults: [] } }),
    ).toEqual([]);
  });

  it('the agent reports failures of the store, notifications and reload', () => {
    const failed = {
      success: false,
      consecutiveFailures: 3,
      failure: { reason: 'store', message: 'dw.db can’t be written' },
    };
    const dark = { stale: true, success: false, complete: false, consecutiveFailures: 3 };
    expect(
      agent({
        statuses: [status(failed), ...['b', 'c', 'd'].map(() => status(dark))],
        notifications: [notified('sent', 0), notified('failed', 2), notified('dropped', 1)],
        lastReload: { at: NOON - MINUTE, faults: [{ message: 'accounts: required' }, { message: 'other' }] },
      }),
    ).toMatchInlineSnapshot(`
      [
        " | critical | store_failing |  | 2026-03-14T12:00:00.000Z | 1 round can’t store new data, so counters are frozen: dw.db can’t be written.",
        " | critical | notifications_failing | ops | 2026-03-14T12:00:00.000Z | 2 notifications to ops failed in the last 15 minutes, and none was delivered.",
        " | warning | reload_refused |  | 2026-03-14T11:59:00.000Z | The new configuration was rejected, and the previous one stays active: accounts: required (and 1 more error).",
      ]
    `);
  });
});

describe('problems of a shared store', () => {
  it('the leader reports an unavailable database, but not the commits that fail because of it', () => {
    const failure = { reason: 'store', message: 'the database does not answer' };
    const round = { round: 'new', every: 1000, dataAt: 1, durationSeconds: 1, idle: undefined, stale: false };
    const failed = { ...round, success: false, complete: true, consecutiveFailures: 3, failure };
    const collectors = [{ collector: 'dlq', withdrawn: false, rounds: [failed] }];
    const evidence = { now: NOON, notifications: [], lastReload: undefined };
    const statuses = [{ account: 'a', up: true, collectors }];
    expect(agentProblemsOf({ ...evidence, statuses, databaseAway: NOON - MINUTE })).toEqual([
      {
        account: null,
        kind: 'database_away',
        severity: 'critical',
        subject: null,
        since: new Date(ago(1)).toISOString(),
        text: 'The database is unavailable: counters are frozen, and auto-cancel is suspended.',
        runbook: 'DeliveryStoreFailing',
      },
    ]);
  });
});
