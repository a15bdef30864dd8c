import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { accountRounds, collectOptions } from '../../../src/collectors/index.ts';
import { AccountView } from '../../../src/status/api/account.ts';
import { accountPage } from '../../../src/status/page/account.ts';
import { ROUND_TITLES } from '../../../src/status/page/rounds.ts';
import { distinct, foreignValues, pageValues, unshownFacts } from '../../support/page-values.ts';
import { context, part, read, strange } from './context.ts';
import { account, hostile, LONG, round, unread, withdrawn } from './fixtures/account.ts';
import { after } from './fixtures/complete-account.ts';

const page = (view: AccountView) => accountPage(view, { ...context, root: '../' }).text;

/** Fields that the sections may omit: the header shows the time of the page, and the summary of an alert contains its value. */
const OMITTED = /^(now|serviceNow|alerts\.\d+\.value)$/;

describe('account page', () => {
  it.each(Object.entries({ account, withdrawn, unread, hostile }))(
    'the account page shows only values that the API returns: %s',
    (_, view) => {
      expect(AccountView.parse(view)).toEqual(view);
      for (const each of [view, distinct(view)]) expect(foreignValues(page(each), each)).toEqual([]);
      expect(page(view)).not.toMatch(/undefined|NaN|\[object/);
    },
  );

  it('the account page shows all numbers and times that the API returns', () => {
    const view = distinct(account);
    expect(unshownFacts(page(view), view).filter(path => !OMITTED.test(path))).toEqual([]);
  });

  it('the account page has a title for every round', () => {
    const all = accountRounds(collectOptions.parse({ flowControl: { watch: ['key'] } }));
    const names = [...all].flatMap(([collector, rounds]) => Object.keys(rounds).map(round => `${collector} ${round}`));
    expect(
      names.filter(name => !(name in ROUND_TITLES)),
      'ROUND_TITLES in src/status/page/rounds.ts',
    ).toEqual([]);
  });

  it('the account page starts with the problems, followed by the sections that they refer to', () => {
    const text = read(page(account));
    const order = [
      'production : warning',
      'Problems',
      'Alerts',
      'Oldest entered',
      'Newest event',
      'Paused keys',
      'missed',
      'Rounds:',
      'Remaining budget',
    ];
    const places = order.map(words => text.indexOf(words));
    expect(places).toEqual([...places].sort((one, other) => one - other));
    expect(places).not.toContain(-1);
  });

  it('the account page shows the next start of a schedule, and a dash if the schedule is paused', () => {
    const textOf = (state: 'paused' | 'ok') => {
      const [schedule] = account.schedules;
      return read(page({ ...account, schedules: schedule ? [{ ...schedule, state }] : [] }));
    };
    expect(textOf('paused')).toMatch(/paused —/);
    expect(textOf('ok')).toMatch(/last on time (?!—)/);
  });

  it('the account page does not call a schedule on time before its first start', () => {
    const never = { state: 'ok', lastRun: null, lastStarted: null, lastDelivered: null, lastFailed: null } as const;
    const text = read(page({ ...account, schedules: account.schedules.map(each => ({ ...each, ...never })) }));
    expect(text).toContain('no start seen yet');
    expect(text).not.toContain('last on time');
  });

  it.each([
    [-0.006, '6 ms behind the agent’s'],
    [0, '0 s same as the agent’s'],
    [90, '1 min 30 s ahead of the agent’s'],
    [null, '— not known Calls by outcome'],
  ])('the account page describes a clock skew of %s s as: %s', (clockSkewSeconds, words) => {
    expect(read(page({ ...account, clockSkewSeconds }))).toContain(`Clock of the service ${words}`);
  });

  it('the account page uses the singular for one', () => {
    const { deadLetters: dlq, flowControl, usage } = account;
    const text = read(
      page({
        ...account,
        deadLetters: {
          ...dlq,
          breakdowns: dlq.breakdowns.map(each => ({ ...each, beyondCap: 1 })),
          kinds: { ...dlq.kinds, others: 1 },
        },
        flowControl: { ...flowControl, parallelismInUse: 1, parallelismLimit: 1 },
        usage: usage && { ...usage, deadLetters: 1 },
      }),
    );
    for (const words of [
      '(all others) is the sum of 1 value.',
      '1 dead letter belongs to other kinds',
      'of 1 delivery at once',
      'with 1 dead letter;',
    ])
      expect(text).toContain(words);
  });

  it('the account page starts with the state critical while a critical alert fires whose problem is unknown', () => {
    const alert = {
      state: 'firing',
      labels: { alertname: 'A', severity: 'critical' },
      annotations: {},
      value: 1,
    } as const;
    const first = (alerts: AccountView['alerts'], state: AccountView['state'] = 'ok') =>
      /<div class="verdict (\w+)">/.exec(page({ ...account, state, problems: [], alerts }))?.[1];
    expect(first([alert])).toBe('critical');
    expect(first([{ ...alert, state: 'resolved' }])).toBe('ok');
    expect(first([{ ...alert, silencedBy: 'load test' }])).toBe('ok');
    expect(first([{ ...alert, labels: { severity: 'warning' } }], 'warning')).toBe('warning');
    expect(first([alert], 'unknown')).toBe('unknown');
  });

  it('the account page names a round once if the collector has the same name', () =>
    expect(read(page({ ...account, rounds: [round('queues', 'queues')] }))).toContain('Queues queues current'));

  it('the account page explains once per section why its numbers are unknown', () => {
    const text = page(withdrawn);
    for (const id of ['dead-letters', 'events', 'flow-control']) {
      expect(part(text, id).match(/class="tag withdrawn"/g)).toHaveLength(1);
      expect(read(part(text, id))).toContain('too old to be shown');
      expect(read(part(text, id))).toMatch(
        /Last read at 09:08 UTC , 1 h 6 min ago . .*401 Unauthorized . Replace the token/,
      );
    }
    expect(part(text, 'calls')).toContain('class="tag refused"');
  });

  it('the account page names the next attempt of a failed round, in its section and in the list of rounds', () => {
    const failure = { reason: 'server', message: 'GET /v2/dlq: status 503' };
    const rounds = [round('dlq', 'full', { state: 'stale', failure, retryAt: after(12) })];
    const text = page({ ...account, deadLetters: { ...account.deadLetters, data: 'stale' }, rounds });
    for (const id of ['dead-letters', 'rounds']) {
      expect(read(part(text, id))).toMatch(/Retried in 12 s . Check the status page of the service/);
    }
  });

  it('a disabled collector is shown as a single line', () => {
    const text = page(unread);
    expect(read(part(text, 'events'))).toContain('The event log is not read: collect.events.enabled is false');
    expect(pageValues(part(text, 'events'))).toEqual([]);
    expect(part(text, 'flow-control')).not.toContain('data-chart');
  });

  it('the account page shows a past expiry as overdue', () => {
    const of = (nextExpiry: string) => read(page({ ...account, deadLetters: { ...account.deadLetters, nextExpiry } }));
    expect(of('2026-11-22T10:25:12.000Z')).toContain('Next expiry in 10 min');
    expect(of('2026-11-22T10:05:12.000Z')).toContain('Next expiry (overdue) 10 min ago');
  });

  it('the account page shows when a resolved alert ended', () => {
    const alert = { labels: { alertname: 'A' }, annotations: {}, value: 1, startsAt: '2026-11-22T08:15:12.000Z' };
    const of = (more: Partial<AccountView['alerts'][number]>) =>
      read(page({ ...account, alerts: [{ ...alert, state: 'firing', ...more }] }));
    expect(of({})).toContain('began 2 h ago');
    const resolved = of({ state: 'resolved', endsAt: '2026-11-22T10:05:12.000Z' });
    expect(resolved).toContain('ended 10 min ago');
    expect(resolved).not.toContain('began 10 min ago');
  });

  it.each([
    ['ok', 'current'],
    ['partial', 'incomplete'],
    ['failing', 'failing'],
    ['stale', 'stale'],
    ['withdrawn', 'withdrawn'],
    ['waiting', 'waiting for another round'],
    ['not_due', 'nothing to read yet'],
    ['not_read', 'not read'],
  ] as const)('a round that is %s is described as: %s', (state, words) => {
    const failure = { reason: 'network', message: 'connect ECONNREFUSED' };
    const text = part(
      page({ ...account, rounds: [round('dlq', 'full', { state, consecutiveFailures: 3, failure })] }),
      'rounds',
    );
    expect(read(text)).toContain(`Dead letters: the whole queue dlq full ${words}`);
    expect(read(text)).toContain(
      'network : connect ECONNREFUSED 3 in a row Check the network path: route, firewall, proxy',
    );
  });

  it('external names are escaped', () => {
    expect(strange(page(hostile))).toEqual([]);
    expect(strange(`${page(account)}<img src=x onerror=alert(1)>`)).toEqual(['<']);
    expect(strange('<p onclick="x">')).toEqual(['<p onclick="x">']);
    expect(page(hostile)).toContain(`<bdi class="name">${LONG}</bdi>`);
  });

  it('a breakdown is collapsed after its first ten values', () => {
    const text = part(page(hostile), 'dead-letters');
    expect(text).toContain('<details id="more-by-topic"><summary>41 more</summary>');
  });

  it('a time in the future is shown as "in 9 d" if the service’s clock is ahead', () => {
    expect(read(part(page(hostile), 'dead-letters'))).toContain('Oldest entered in 9 d');
  });

  it('charts request only families that the documentation lists', () => {
    const metrics = readFileSync(new URL('../../../docs/metrics.md', import.meta.url), 'utf8');
    const charts = [...page(account).matchAll(/data-chart="([^"]*)"/g)].map(([, text = '']) =>
      text.replaceAll('&quot;', '"'),
    );
    const families = charts.flatMap(text => JSON.parse(text).lines.map((line: { family: string }) => line.family));
    expect(families.length).toBeGreaterThan(8);
    for (const family of families) expect(metrics).toContain(`\`${family.replace(/_bucket$/, '')}\``);
  });

  it('the account page matches the golden file', async () => {
    const main = page(unread)
      .replace(/^.*<main/s, '<main')
      .replace(/<\/main>.*$/s, '</main>\n');
    await expect(main).toMatchFileSnapshot('golden/account-unread.txt');
  });
});

it('the account page shows which limits of a key are pinned, and no column if none is', () => {
  const flowOf = (rows: typeof account.flowControl.rows) =>
    read(
      part(accountPage({ ...account, flowControl: { ...account.flowControl, rows } }, context).text, 'flow-control'),
    );
  const [first] = account.flowControl.rows;
  if (!first) throw new Error('the fixture has no key');
  expect(flowOf([{ ...first, pinned: ['parallelism', 'rate'] }])).toMatch(/ Pinned .* parallelism, rate/);
  for (const pinned of [[], null]) expect(flowOf([{ ...first, pinned }])).not.toMatch(/pinned/i);
});

it('the account page shows the last changed limit of a key, and no column if none has changed', () => {
  const flowOf = (rows: typeof account.flowControl.rows) =>
    read(
      part(accountPage({ ...account, flowControl: { ...account.flowControl, rows } }, context).text, 'flow-control'),
    );
  const [first] = account.flowControl.rows;
  if (!first) throw new Error('the fixture has no key');
  const change = { limit: 'period' as const, from: 60, to: 86_400, at: '2026-03-14T08:00:00.000Z' };
  expect(flowOf([first])).toMatch(/Last changed limit .* parallelism 10 → 20/);
  expect(flowOf([{ ...first, lastChange: change }])).toMatch(/ period 1 min → 1 d/);
  expect(flowOf([{ ...first, lastChange: null }])).not.toMatch(/changed limit/i);
});

it.each([
  ['user (<secret>) not found in this region (eu-central-1)', 'The token belongs to another region: check baseUrl.'],
  ['404 page not found', 'Check baseUrl and paths, or disable the collector.'],
])('the account page advises after a 404 with the text "%s": %s', (text, step) => {
  const failure = { reason: 'not_found', message: `GET /v2/dlq: status 404: ${text}` };
  const rounds = account.rounds.map(round => ({ ...round, state: 'failing' as const, failure }));
  expect(read(accountPage({ ...account, rounds }, context).text)).toContain(step);
});

it('the account page shows keys named like built-in properties such as __proto__', () => {
  const [first] = account.flowControl.rows;
  const names = ['__proto__', 'constructor', 'toString'];
  const rows = first ? names.map(key => ({ ...first, key })) : [];
  const page = accountPage({ ...account, flowControl: { ...account.flowControl, rows } }, context).text;
  for (const name of names) expect(part(page, 'flow-control')).toContain(`<bdi class="name">${name}</bdi>`);
});

it('the account page shows since when the database has been unavailable', () => {
  const text = accountPage(account, { ...context, root: '../', databaseAway: context.now }).text;
  expect(read(text)).toContain(
    'database unavailable since 2026-11-22 10:15:12 UTC: counters are frozen, and auto-cancel is suspended.',
  );
});
