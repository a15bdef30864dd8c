import { readdirSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { AccountStatus } from '../../../src/model/status.ts';
import { AGENT_CHECKS, type AgentInput } from '../../../src/rules/checks/agent.ts';
import { BUILTIN_ALERTS, builtinAlert } from '../../../src/rules/checks/alerts.ts';
import { ACCOUNT_CHECKS, runChecks } from '../../../src/rules/checks/run.ts';
import type { AccountViewBase } from '../../../src/status/account.ts';
import { PROBLEM_KINDS, type Problem } from '../../../src/status/api/parts.ts';
import { byWeight, problemsOf } from '../../../src/status/problems.ts';
import { NOON } from '../../support/calm-account.ts';
import { MESSAGES } from './cases-of-messages.ts';
import { QUEUES } from './cases-of-queues.ts';
import { READING } from './cases-of-reading.ts';
import { ago, finished, MINUTE, problemLines, problems, rounds, row, type Scene, waitlist } from './check-scene.ts';

type AgentScene = AgentInput & Pick<Parameters<typeof problemsOf>[2], 'firstSeen'>;

const agentProblemsOf = ({ firstSeen, ...input }: AgentScene) =>
  problemsOf(runChecks(AGENT_CHECKS, input), null, { now: input.now, firstSeen });

const CASES = [...READING, ...MESSAGES, ...QUEUES];

describe('accounts without problems', () => {
  it('a healthy account has no problems', () => {
    expect(problemLines({})).toEqual([]);
  });

  it('an account has no problems before the first read', () => {
    const nothing = (view: AccountViewBase) => {
      rounds(view, round => Object.assign(round, { state: 'not_read', dataAt: null, tookSeconds: null }));
      for (const part of [view.deadLetters, view.events, view.flowControl]) part.data = 'not_read';
      Object.assign(view.calls, { budgetRemaining: null, tokenRejected: null });
    };
    expect(problemLines({ change: nothing })).toEqual([]);
  });

  it('an account whose history has just started has no problems based on changes over time', () => {
    const change = (view: AccountViewBase) => {
      Object.assign(view.deadLetters, { messages: 900, entered: 9000 });
      Object.assign(view.events, { overdue: 900, finished: { delivered: 1, failed: 900, cancelled: 0 } });
      row(view).waiting = 9000;
    };
    const names = ['delivery_dlq_messages', 'delivery_dlq_entered_total', 'delivery_messages_overdue_total'];
    const none = Object.fromEntries(
      [...names, finished('failed'), finished('delivered'), waitlist].map(name => [name, () => undefined]),
    );
    expect(problemLines({ change, courses: none })).toEqual([]);
  });
});

it('a reported problem remains until its value is well below the threshold', () => {
  const scene = (messages: number, failed: number): Scene => ({
    change(view) {
      Object.assign(view.deadLetters, { messages });
      Object.assign(view.events, { finished: { delivered: 10_000, failed, cancelled: 0 } });
    },
    courses: {
      [finished('delivered')]: minutes => 10_000 - 50 * minutes,
      [finished('failed')]: minutes => Math.round(failed * (1 - minutes / 60)),
    },
  });
  const kinds = (messages: number, failed: number, isReported: boolean) =>
    problems({ ...scene(messages, failed), ...(isReported ? { firstSeen: () => NOON - 3 * MINUTE } : {}) }).map(
      ({ severity, kind }) => `${severity} ${kind}`,
    );
  // Thresholds: growth from 100 to 120 messages, and 3 % failed messages.
  expect([kinds(116, 75, false), kinds(113, 60, true)]).toEqual([[], []]);
  expect(kinds(116, 75, true).sort()).toEqual(['warning dlq_growing', 'warning messages_failing']);
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

it('byWeight orders problems by severity, then by age', () => {
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
    of('critical', ago(1)),
    of('warning', ago(9)),
    of('warning', ago(2)),
    of('warning', null),
    of('info', ago(99)),
  ];
  expect([...ordered].reverse().sort(byWeight)).toEqual(ordered);
});

describe('runbooks of built-in alerts', () => {
  it('each built-in alert has a runbook file, except those marked as having none', () => {
    const files = new Set(readdirSync(new URL('../../../docs/runbooks/', import.meta.url)));
    const named = BUILTIN_ALERTS.filter(name => !builtinAlert(name).hasNoRunbook);
    expect(named.filter(name => !files.has(`${name}.md`))).toEqual([]);
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
      firstSeen: () => undefined,
      ...evidence,
    }).map(({ account, severity, kind, subject, since, text }) =>
      [account, severity, kind, subject, since, text].join(' | '),
    );

  it('the agent has no problems if at least one notification was delivered and the last reload succeeded', () => {
    expect(
      agent({ notifications: [notified('sent', 1), notified('failed', 9)], lastReload: { at: 1, faults: [] } }),
    ).toEqual([]);
  });

  it.each([
    ['unauthorized', []],
    ['invalid_response', []],
    ['server', [expect.stringContaining('4 of the 5 accounts can’t be read')]],
    ['network', [expect.stringContaining('4 of the 5 accounts can’t be read')]],
  ])('the agent reports an outage only if accounts can’t be read because of one: %s', (reason, problems) => {
    const failure = { reason, message: 'status' };
    const dark = { stale: true, success: false, complete: false, consecutiveFailures: 3, failure };
    const statuses = [status({}), ...['b', 'c', 'd', 'e'].map(() => status(dark))];
    expect(agent({ statuses })).toEqual(problems);
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
    const evidence = { now: NOON, notifications: [], lastReload: undefined, firstSeen: () => undefined };
    const statuses = [{ account: 'a', up: true, collectors }];
    expect(agentProblemsOf({ ...evidence, statuses, databaseAway: NOON - MINUTE })).toEqual([
      {
        account: null,
        kind: 'database_away',
        severity: 'critical',
        subject: null,
        since: ago(1),
        text: 'The database is unavailable: counters are frozen, and auto-cancel is suspended.',
        runbook: 'DeliveryDatabaseAway',
      },
    ]);
  });
});
