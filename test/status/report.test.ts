import { describe, expect, it } from 'vitest';
import type { AccountStatus } from '../../src/model/status.ts';
import type { Problem } from '../../src/status/api/parts.ts';
import type { OverviewRow } from '../../src/status/overview.ts';
import { reportOf } from '../../src/status/report.ts';
import { row } from './page/fixtures/overview.ts';

const NOW = Date.UTC(2026, 0, 1, 12);
const MINUTE = 60_000;

const problem = (kind: Problem['kind'], severity: Problem['severity'] = 'warning'): Problem => ({
  account: 'a',
  kind,
  severity,
  subject: null,
  since: null,
  text: 'It is bad.',
  runbook: null,
});

type Round = AccountStatus['collectors'][number]['rounds'][number];
const statusOf = (collector: string, round: Partial<Round> = {}, withdrawn = false) => ({
  account: 'a',
  up: true,
  collectors: [
    {
      collector,
      withdrawn,
      rounds: [
        {
          round: 'full',
          every: MINUTE,
          consecutiveFailures: 0,
          stale: false,
          success: true,
          complete: true,
          dataAt: NOW - MINUTE,
          ...round,
        },
      ],
    },
  ],
});

function report({
  problems = [],
  status = statusOf('dlq'),
  agentProblems = [],
  data = 'fresh',
}: {
  problems?: Problem[];
  status?: AccountStatus | null;
  agentProblems?: Problem[];
  data?: OverviewRow['row']['data'];
} = {}) {
  const shown = { ...row('a'), data, problems: problems.length };
  return reportOf({
    rows: [{ up: true, problems, row: shown }],
    statuses: status ? [status] : [],
    agentProblems,
    version: '1.2.3',
    externalUrl: null,
    now: NOW,
  });
}

describe('report', () => {
  it('an account without problems and with current, complete data is healthy', () => {
    expect(report()).toMatchObject({
      verdict: 'healthy',
      accounts: [{ account: 'a', verdict: 'healthy', unknown: [] }],
    });
  });

  it.each([
    ['stale', statusOf('dlq', { stale: true, failure: { reason: 'server', message: 'GET /v2/dlq: status 503' } })],
    ['withdrawn', statusOf('events', { stale: true }, true)],
    ['partial', statusOf('flow_control', { partial: true })],
    ['not_read', { ...statusOf('dlq', { dataAt: undefined }) }],
  ] as const)('an account with %s data is unknown and never healthy', (data, status) => {
    const { verdict, accounts } = report({ status: status as AccountStatus });
    expect(verdict).toBe('unknown');
    expect(accounts[0]?.unknown).toMatchObject([{ collector: status.collectors[0]?.collector, data }]);
  });

  it('stale data is reported with the time of the data and the last failure', () => {
    const failure = { reason: 'server', message: 'GET /v2/dlq: status 503' };
    expect(report({ status: statusOf('dlq', { stale: true, failure }) as AccountStatus }).accounts[0]?.unknown).toEqual(
      [
        {
          collector: 'dlq',
          data: 'stale',
          dataAt: '2026-01-01T11:59:00.000Z',
          failure: failure.message,
          retryAt: null,
        },
      ],
    );
  });

  it.each([
    ['without a status', null],
    ['without collectors', { account: 'a', up: true, collectors: [] }],
    ['with only the plan of the account', statusOf('account')],
  ])('an account %s is unknown', (_what, status) => {
    const { verdict, accounts } = report({ status });
    expect([verdict, accounts[0]?.unknown]).toEqual([
      'unknown',
      [expect.objectContaining({ collector: null, data: 'not_read' })],
    ]);
  });

  it.each([
    ['dlq_growing', 'critical', 'problems'],
    ['rate_limited', 'warning', 'problems'],
    ['dlq_growing', 'info', 'healthy'],
    ['token_rejected', 'critical', 'unknown'],
    ['service_unavailable', 'critical', 'unknown'],
    ['not_shown', 'warning', 'unknown'],
  ] as const)('a problem %s of severity %s leads to the verdict %s', (kind, severity, verdict) => {
    expect(report({ problems: [problem(kind, severity)] }).verdict).toBe(verdict);
  });

  it('a problem of the account outweighs stale data, and a problem of the agent outweighs unknown accounts', () => {
    const stale = statusOf('dlq', { stale: true });
    expect(report({ status: stale, problems: [problem('dlq_old')] }).verdict).toBe('problems');
    const { verdict, agent, accounts } = report({ status: stale, agentProblems: [problem('store_failing')] });
    expect([verdict, agent.verdict, accounts[0]?.verdict]).toEqual(['problems', 'problems', 'unknown']);
  });
});
