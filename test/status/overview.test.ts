import { describe, expect, it } from 'vitest';
import { AGENT_TIME } from '../../src/collectors/collector.ts';
import { createAccountMeter } from '../../src/metrics/own.ts';
import type { Viewed } from '../../src/status/account.ts';
import { Overview, OverviewQuery } from '../../src/status/api/overview.ts';
import type { Problem } from '../../src/status/api/parts.ts';
import { createOverviewRows, type OverviewData, type OverviewRow, overview } from '../../src/status/overview.ts';
import { complete, dlqFacts, selection } from '../support/shown-facts.ts';
import { loadedFrom } from '../support/view-scene.ts';

const NOW = Date.UTC(2026, 0, 1, 12);

const problem = (account: string | null, severity: Problem['severity'], since: string): Problem => ({
  account,
  kind: 'dlq_growing',
  severity,
  subject: null,
  since: `2026-01-01T${since}:00.000Z`,
  text: 'It grows.',
  runbook: null,
});

function row(account: string, more: Partial<OverviewRow['row']> = {}, problems: Problem[] = []): OverviewRow {
  return {
    up: true,
    problems,
    row: {
      account,
      state: 'ok',
      data: 'fresh',
      dataAt: null,
      problems: problems.length,
      worst: problems[0] ?? null,
      deadLetters: null,
      deadLettersChange: null,
      oldestEntered: null,
      serviceAheadSeconds: null,
      delivered: null,
      finished: null,
      waiting: null,
      inFlight: null,
      labels: {},
      ...more,
    },
  };
}

const change = (by: number) => ({ by, overSeconds: 3600 });

const ROWS = [
  row('calm', { deadLetters: 0, waiting: 3, deadLettersChange: change(-2), labels: { team: 'Orders' } }),
  row('new', { state: 'unknown', data: 'not_read' }),
  row('late', { state: 'warning', deadLetters: 7, delivered: 0.5, oldestEntered: '2026-01-01T10:00:00.000Z' }, [
    problem('late', 'warning', '10:00'),
  ]),
  row('broken', { state: 'critical', delivered: 0.99 }, [problem('broken', 'critical', '11:00')]),
  row('later', { state: 'warning', deadLetters: 900, oldestEntered: '2026-01-01T09:00:00.000Z' }, [
    problem('later', 'warning', '11:00'),
    problem('later', 'info', '08:00'),
  ]),
  row('Busy', { waiting: 40, deadLetters: 7, deadLettersChange: change(5), labels: { team: 'billing' } }),
];

const ask = (query: object = {}, all: Partial<OverviewData> = {}) =>
  overview(
    { rows: ROWS, alerts: [], agentProblems: [], version: '1.2.3', now: NOW, ...all },
    OverviewQuery.parse(query),
  );

const names = (query: object) => ask(query).rows.map(({ account }) => account);

describe('overview', () => {
  it('the overview lists the worst accounts first', () =>
    expect(names({})).toEqual(['broken', 'later', 'late', 'new', 'Busy', 'calm']));

  it.each([
    [{ q: 'LATE' }, ['later', 'late']],
    [{ q: 'order' }, ['calm']],
    [{ q: 'BILL' }, ['Busy']],
    [{ q: '.*' }, []],
    [{ state: 'warning' }, ['later', 'late']],
    [{ state: 'ok', q: 'b' }, ['Busy']],
  ])('the query %o finds the accounts %o', (query, expected) => {
    expect(names(query)).toEqual(expected);
    expect(ask(query).matching).toBe(expected.length);
  });

  it.each([
    [{ per: 4 }, 1, 2, 4],
    [{ per: 4, page: 2 }, 2, 2, 2],
    [{ per: 4, page: 99 }, 2, 2, 2],
    [{ per: 4, page: 3, q: 'nothing' }, 1, 1, 0],
    [{ per: 6 }, 1, 1, 6],
  ])('the query %o returns page %i of %i with %i rows', (query, page, pages, length) => {
    const shown = ask(query);
    expect([shown.page, shown.pages, shown.rows.length]).toEqual([page, pages, length]);
  });

  it('the overview counts all accounts regardless of the query, and lists the worst problems first', () => {
    const agentProblems = [problem(null, 'warning', '09:30')];
    const alert = { state: 'firing', labels: { alertname: 'A', account: 'late' }, annotations: {}, value: 1 } as const;
    const alerts = [alert, { ...alert, state: 'pending' as const }, { ...alert, labels: { alertname: 'B' } }];
    const shown = ask({ q: 'late' }, { agentProblems, alerts });
    expect(Overview.parse(shown)).toEqual(shown);
    expect(shown).toMatchObject({
      state: 'critical',
      accounts: { total: 6, up: 6, byState: { critical: 1, warning: 2, unknown: 1, ok: 2 } },
      deadLetters: 914,
      problemsTotal: 5,
      alertsFiring: 2,
    });
    expect(shown.problems.map(({ account, severity }) => `${account} ${severity}`)).toEqual([
      'broken critical',
      'later warning',
      'late warning',
      'null warning',
      'later info',
    ]);
    expect(shown.rows.map(({ account, firing }) => [account, firing])).toEqual([
      ['later', 0],
      ['late', 1],
    ]);
  });

  it('the overview lists critical alerts first, so that more than 100 warnings do not hide them', () => {
    const alert = (severity: string) =>
      ({ state: 'firing', labels: { alertname: severity, severity }, annotations: {}, value: 1 }) as const;
    const { alerts, alertsFiring } = ask({}, { alerts: [...Array(150).fill(alert('warning')), alert('critical')] });
    expect([alerts[0]?.labels.alertname, alerts.length, alertsFiring]).toEqual(['critical', 100, 151]);
  });

  it('the overview returns null instead of 0 for sums before the first read', () => {
    expect(ask({}, { rows: [row('new', { state: 'unknown' })] })).toMatchObject({
      state: 'unknown',
      deadLetters: null,
    });
    expect(ask({}, { rows: [] })).toMatchObject({ state: 'ok', deadLetters: null, page: 1, pages: 1 });
  });
});

/**
 * Creates accounts, each with a number that can be changed. Counts how often each row is computed. A computation takes `takes`
 * milliseconds.
 */
function scene(count: number, takes = 0) {
  const config = { accounts: [{ name: 'a', baseUrl: 'http://localhost', token: 'x' }] };
  const [settings] = loadedFrom(config).config.accounts;
  if (!settings) throw new Error('no account');
  const values = Array.from({ length: count }, (_, index) => index);
  const asked = Array.from({ length: count }, () => 0);
  const viewed = values.map((_, index): Viewed => {
    const status = { account: `a${index}`, up: true, collectors: [] };
    const account = {
      name: `a${index}`,
      status: () => status,
      meter: createAccountMeter({ requests: [], bytes: [], collectors: [] }),
      budgetRemaining: () => undefined,
      isTokenKnown: () => false,
      isTokenRejected: () => undefined,
      serviceClock: AGENT_TIME,
      history: { recent: () => [], read: async () => ({ times: [], series: new Map() }) },
      shown() {
        asked[index] = (asked[index] ?? 0) + 1;
        for (const end = performance.now() + takes; performance.now() < end; );
        const messages = values[index];
        return { dlq: complete(dlqFacts({ selections: new Map([['all', selection({ messages })]]) })) };
      },
    };
    return { account, settings, autoCancel: undefined, problemStates: () => [] };
  });
  const bugs: string[] = [];
  let now = NOW;
  return {
    viewed,
    asked,
    wait(ms: number) {
      now += ms;
    },
    set(index: number, value: number) {
      values[index] = value;
    },
    bugs,
    rows: createOverviewRows(
      viewed,
      () => now,
      (account, error) => void bugs.push(`${account}: ${error}`),
    ),
  };
}

const sizes = (rows: readonly OverviewRow[]) => rows.map(({ row }) => row.deadLetters);

describe('rows', () => {
  it('rows are computed once for concurrent requests, and their computation yields to the event loop', async () => {
    const { rows, asked } = scene(50, 1);
    let turns = 0;
    let isOver = false;
    const tick = () => {
      turns += 1;
      if (!isOver) setImmediate(tick);
    };
    setImmediate(tick);
    const [one, other] = await Promise.all([rows(), rows()]);
    isOver = true;
    expect(one).toBe(other);
    expect(asked.every(times => times === 1)).toBe(true);
    expect(one).toHaveLength(50);
    expect(turns).toBeGreaterThan(2);
  });

  it('an account whose row cannot be computed is shown as failed, and the error is logged once; other accounts are unaffected', async () => {
    const { rows, viewed, bugs, wait, set } = scene(3);
    const [, broken] = viewed;
    const { shown: before } = broken?.account ?? {};
    const breakIt = (with_: unknown) => Object.assign(broken?.account ?? {}, { shown: with_ });
    breakIt(() => {
      throw new Error('unheard of');
    });
    const all = await rows();
    wait(60_000);
    await rows();
    expect(bugs).toEqual(['a1: Error: unheard of']);
    expect(sizes(all)).toEqual([0, null, 2]);
    const [shown] = ask({}, { rows: await rows() }).rows;
    expect(shown).toMatchObject({
      account: 'a1',
      state: 'warning',
      worst: { kind: 'not_shown', since: new Date(NOW).toISOString() },
    });
    expect(Overview.safeParse(ask({}, { rows: all })).error).toBeUndefined();
    breakIt(before);
    set(1, 7);
    expect(sizes(await rows())).toEqual([0, 7, 2]);
  });
});
