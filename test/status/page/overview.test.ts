import { describe, expect, it } from 'vitest';
import type { ReloadError } from '../../../src/http/served.ts';
import { type Overview, OverviewQuery } from '../../../src/status/api/overview.ts';
import { PROBLEM_KINDS } from '../../../src/status/api/parts.ts';
import { overviewPage, verdictOf } from '../../../src/status/page/overview.ts';
import { distinct, foreignValues, unshownFacts } from '../../support/page-values.ts';
import { context, read } from './context.ts';
import { before, HOSTILE, overview, row, TROUBLED } from './fixtures/overview.ts';

const page = (view: Overview, query: Partial<OverviewQuery> = {}, faults: readonly ReloadError[] = []) =>
  overviewPage(view, { ...OverviewQuery.parse({}), ...query }, faults, context).text;

describe('verdict', () => {
  const [critical, , warning] = TROUBLED.problems;
  if (!critical || !warning) throw new Error('the fixture has too few problems');
  const two = [
    row('a', { state: 'critical', worst: critical }),
    row('b', { state: 'warning', worst: warning }),
    row('c'),
  ];
  const alertsOf = (...severities: string[]): Overview['alerts'] =>
    severities.map(severity => ({ state: 'firing', labels: { alertname: 'A', severity }, annotations: {}, value: 1 }));
  it.each<[string, Overview]>([
    ['All right', overview([row('a'), row('b')])],
    ['2 problems, 1 critical', overview(two)],
    ['1 problem, 1 critical', overview(two.slice(0, 1).concat(row('c')))],
    ['1 problem, 1 critical', overview(two.slice(0, 1))],
    ['1 problem', overview([row('a', { state: 'warning', worst: { ...warning, account: null } })])],
    [
      '2,500 problems, at least 1 critical',
      overview(two.slice(0, 1), {
        problemsTotal: 2500,
        accounts: { total: 3, up: 1, byState: { critical: 1, warning: 1, unknown: 0, ok: 1 } },
      }),
    ],
    ['No data yet', overview([row('a', { state: 'unknown' })])],
    ['No data yet from 1 account', overview([row('a', { state: 'unknown' }), row('b')])],
    ['2 alerts firing', overview([row('a', { state: 'warning' })], { alertsFiring: 2 })],
    ['2 alerts firing', overview([row('a')], { alerts: alertsOf('warning', 'info'), alertsFiring: 2 })],
    ['All right', overview([row('a')], { alerts: alertsOf('info'), alertsFiring: 1 })],
    [
      '1 account not up',
      overview([row('a'), row('b')], {
        accounts: { total: 2, up: 1, byState: { critical: 0, warning: 0, unknown: 0, ok: 2 } },
      }),
    ],
  ])('the first line of the overview page states the overall result: %j', (words, view) => {
    expect(verdictOf(view)).toBe(words);
    expect(page(view)).toContain(`<title>${words} · delivery-watch</title>`);
  });

  it('the first line of the overview page is critical while a critical alert fires', () => {
    const lookOf = (...severities: string[]) =>
      /<div class="verdict (\w+)">/.exec(
        page(overview([row('b', { state: 'warning', worst: warning })], { alerts: alertsOf(...severities) })),
      )?.[1];
    expect(lookOf('warning')).toBe('warning');
    expect(lookOf('warning', 'critical')).toBe('critical');
  });

  it('the first line of the overview page does not count findings with severity info as problems', () => {
    const { worst } = row('a', { worst: { ...warning, severity: 'info' } });
    const text = read(page(overview([row('a', { worst })])));
    expect(text).toMatch(/All right .* Worth knowing/);
    expect(text).not.toContain('Problems');
  });
});

describe('overview page', () => {
  it('the overview page shows only values from the API, including the values of each row', () => {
    for (const view of [TROUBLED, distinct(TROUBLED)]) expect(foreignValues(page(view), view)).toEqual([]);
    const view = distinct(TROUBLED);
    const missing = unshownFacts(page(view), view).join('\n');
    expect(missing).not.toMatch(/^(deadLetters|accounts\.up|problems\.0\.since|alerts\.1\.startsAt)$/m);
    expect(missing).not.toMatch(/^rows\.\d+\.(deadLetters|waiting|dataAt)$/m);
    expect(page(TROUBLED)).not.toMatch(/undefined|NaN|\[object/);
  });

  it('the overview page shows unknown values as unknown, without a number', () => {
    const text = page(
      overview([row('a', { state: 'unknown', data: 'not_read', deadLetters: null, waiting: null, dataAt: null })]),
    );
    expect(read(text)).toMatch(/no data yet a — not known .* not read yet — not known/);
  });

  it('the overview page shows the time span of message counts unless it is about an hour', () => {
    const text = (overSeconds: number, by = 717) =>
      read(page(overview([row('a', { delivered: 0.9957, finished: { by, overSeconds } })])));
    expect(text(377)).toContain('99.57 % of 717 in 6 min');
    expect(text(3541)).toMatch(/99\.57 % of 717 3 /);
    expect(text(377, 0)).toContain('none ended');
  });

  it('the overview page escapes names, and encodes them completely in links', () => {
    const text = page(overview(HOSTILE.map(name => row(name, { labels: { x: name } }))));
    expect(text.match(/<script/g)).toEqual(['<script']);
    expect(text).not.toContain('<img');
    for (const name of HOSTILE) {
      expect(text).toContain(`href="accounts/${encodeURIComponent(name).replaceAll("'", '&#39;')}"`);
    }
    expect(text).toContain('<bdi class="name">\u202egnihtemos\u202c</bdi>');
  });

  it('the overview page links an alert only to a runbook with a web URL, and a problem to the agent’s own runbook page', () => {
    const text = page(TROUBLED);
    expect(text).toContain('href="https://runbooks.example.com/DlqGrowing"');
    expect(text).not.toContain('href="javascript');
    expect(text).toContain('href="runbooks/DeliveryTokenRejected"');
  });

  it('the overview page shows silenced alerts and the locations of configuration errors', () => {
    const faults = [{ file: 'c.yaml', line: 3, column: 7, message: 'accounts: <b>bad</b>' }];
    const text = read(page(TROUBLED, {}, faults));
    expect(text).toMatch(/DlqGrowing nightly filter= payments silenced planned migration until noon/);
    expect(text).toMatch(
      /The last reload failed; the previous configuration stays active .* c\.yaml:3:7 accounts: &lt;b&gt;bad/,
    );
    expect(read(page(TROUBLED))).not.toContain('configuration');
  });

  it('the overview page has a distinct word for each kind of problem and each state of data', () => {
    const [first] = TROUBLED.problems;
    if (!first) throw new Error('the fixture has no problem');
    const words = PROBLEM_KINDS.map(kind => {
      const view = overview([], { problems: [{ ...first, kind }], problemsTotal: 1, state: 'warning' });
      return /class="tag[^"]*">([^<]+)</.exec(page(view))?.[1];
    });
    expect(new Set(words).size).toBe(PROBLEM_KINDS.length);
    const states = (['fresh', 'partial', 'stale', 'withdrawn', 'not_read'] as const).map(
      data => /class="tag ?([^"]*)">([^<]+)</.exec(page(overview([row('a', { data })])))?.slice(1) ?? [],
    );
    expect(states.map(([look, word]) => `${look}: ${word}`)).toEqual([
      'undefined: undefined',
      'partial: incomplete',
      'stale: stale',
      'withdrawn: withdrawn',
      'unread: not read yet',
    ]);
  });

  it('the overview page keeps the query in links to other pages', () => {
    const view = overview([row('a')], {
      accounts: { ...TROUBLED.accounts, total: 250 },
      matching: 250,
      page: 2,
      pages: 3,
    });
    const text = page(view, { q: 'pay & go', state: 'warning', page: 2 });
    expect(read(text)).toContain('101 to 101 of 250 accounts');
    expect(text).toContain('rel="next" href="?q=pay+%26+go&amp;state=warning&amp;page=3"');
    expect(text).toContain('rel="prev" href="?q=pay+%26+go&amp;state=warning"');
    expect(text).toContain('value="pay &amp; go"');
    expect(text).toContain('<option value="warning" selected>');
  });

  it('the overview page reports a query without matches', () => {
    const view = overview([], { accounts: TROUBLED.accounts, matching: 0, pages: 0 });
    expect(page(view, { q: 'x' })).toContain('No matching account. <a href="./">Show all</a>');
  });

  it('the overview page of a single account has no search or paging', () => {
    const text = page(overview([row('a', { oldestEntered: before(60) })]));
    expect(text).not.toMatch(/<form|class="pager"|<h2>Problems|<h2>Firing/);
    expect(read(text)).toContain('1 of 1 account up · 12 dead letters · 0 alerts firing');
  });

  it('the overview page has ordered headings with a single h1, and no inline scripts or styles', () => {
    const text = page(TROUBLED);
    expect([...text.matchAll(/<h(\d)/g)].map(([, rank]) => rank)).toEqual(['1', '2', '2', '2']);
    expect(page(overview([row('a'), row('b')]))).not.toMatch(
      /<style| style=| on\w+=|<script(?! type="module" src="assets)/,
    );
  });

  it('the overview page renders a hundred accounts within 25 ms of CPU time', () => {
    const view = overview(Array.from({ length: 100 }, (_, index) => row(`account-${index}`)));
    page(view);
    const start = process.cpuUsage();
    for (let turn = 0; turn < 10; turn += 1) page(view);
    const { user, system } = process.cpuUsage(start);
    // Rendering blocks the event loop. The limit (ms) includes tolerance for slow machines.
    expect((user + system) / 10 / 1000).toBeLessThan(25);
  });
});
