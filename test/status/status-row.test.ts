import { describe, expect, it } from 'vitest';
import type { ShownAlert } from '../../src/rules/alerting.ts';
import type { Problem } from '../../src/status/api/parts.ts';
import {
  createStatusRows,
  decodeStatus,
  encodeStatus,
  MAX_ROW,
  type OwnStatus,
  STATUS_KEY,
} from '../../src/status/status-row.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { autoCancel } from './page/fixtures/auto-cancel.ts';
import { row } from './page/fixtures/overview.ts';

const SENTENCE = 'The waitlist of this key grew from 1,208 to 13,911 messages in the last 15 minutes: 847 a minute.';

const problem = (index: number): Problem => ({
  account: 'production',
  kind: 'waitlist_growing',
  severity: 'warning',
  subject: `tenant-${index}`,
  since: '2026-11-22T10:03:12.000Z',
  text: SENTENCE,
  runbook: 'DeliveryWaitlistGrowing',
});

const alert = (index: number, state: ShownAlert['state'] = 'firing'): ShownAlert => ({
  state,
  labels: { alertname: 'WaitlistGrowing', account: 'production', severity: 'warning', flow_control_key: `t-${index}` },
  annotations: { summary: SENTENCE },
  value: index,
  startsAt: '2026-11-22T10:03:12.000Z',
});

const failure = { reason: 'unauthorized', message: `GET /v2/dlq: 401 Unauthorized: ${'x'.repeat(200)}` };
const round = (name: string) => ({
  round: name,
  every: 30_000,
  success: false,
  complete: false,
  durationSeconds: 0.123456789,
  dataAt: 1_763_806_512_000,
  consecutiveFailures: 7,
  idle: undefined,
  stale: true,
  failure,
});

/** The status of an account with all collectors, in which every round fails. */
function statusWith(problems: number, alerts: readonly ShownAlert[], filters = 3): OwnStatus {
  const [brakes] = autoCancel.accounts;
  if (!brakes) throw new Error('the fixture has no account');
  const failedFilters = Array.from({ length: filters }, (_, index) => ({
    name: `filter-${index}`,
    ...failure,
    since: 1_763_806_512_000,
    isContradicted: false,
  }));
  const collector = (name: string, ...rounds: string[]) => ({
    collector: name,
    withdrawn: false,
    rounds: rounds.map(round),
  });
  return {
    at: 1_763_806_512_000,
    publicUrl: null,
    row: row('production', { problems }),
    up: false,
    unevaluated: ['dlq_growing'],
    problems: Array.from({ length: problems }, (_, index) => problem(index)),
    alerts,
    status: {
      account: 'production',
      up: false,
      collectors: [
        { ...collector('dlq', 'new', 'full'), failedFilters },
        collector('events', 'tail', 'sweep'),
        collector('flow_control', 'list', 'watch'),
      ],
    },
    autoCancel: {
      account: 'production',
      brakes,
      rules: Array.from({ length: filters }, (_, index) => ({ name: `rule-${index}`, candidates: 1, left: 2 })),
      journalAt: 1_763_806_512_000,
      candidates: autoCancel.candidates,
    },
  };
}

function decoded(text: string) {
  const found = decodeStatus(text);
  if (!found) throw new Error('the row is unreadable');
  return found;
}

describe('status rows', () => {
  it.each([-1e300, -1, 1e300])('a status row with the time %s, which cannot be formatted, is unreadable', at => {
    const text = encodeStatus(statusWith(3, []));
    expect(decodeStatus(text)).toBeDefined();
    expect(decodeStatus(JSON.stringify({ ...JSON.parse(text), at }))).toBeUndefined();
  });

  it('a status row of a typical account omits nothing and uses less than half of its size limit', () => {
    const own = statusWith(3, [alert(1), alert(2, 'resolved')]);
    const text = encodeStatus(own);
    const found = decoded(text);
    expect(found).toMatchObject({ at: own.at, up: false, problems: own.problems, alerts: own.alerts });
    expect(found.collectors).toEqual(JSON.parse(JSON.stringify(own.status.collectors)));
    expect(found.row).toMatchObject({ state: 'ok', deadLetters: 12, problems: 3 });
    expect(found.autoCancel).toMatchObject({ rules: own.autoCancel?.rules, brakes: { tracked: 12 } });
    // The account's name comes from the row's key, its labels from the configuration, and candidates only from the holder.
    expect(text).not.toMatch(/"labels":\{\}|dlq-1|heldText/);
    expect(Buffer.byteLength(text)).toBeLessThan(MAX_ROW / 2);
  });

  it.each([
    ['100 alerts and 50 problems', 50, 100, 3],
    ['100 alerts', 0, 100, 3],
    ['1,000 problems', 1000, 0, 3],
    ['1,000 failed filters and rules', 50, 100, 1000],
  ])(
    'a status row with %s uses most of its limit of 16 KB and counts the omitted parts',
    (_, problems, alerts, filters) => {
      const states = (index: number) => (index < alerts / 2 ? 'resolved' : 'firing') as ShownAlert['state'];
      const own = statusWith(
        problems,
        Array.from({ length: alerts }, (_, index) => alert(index, states(index))),
        filters,
      );
      const text = encodeStatus(own);
      expect(Buffer.byteLength(text)).toBeLessThanOrEqual(MAX_ROW);
      expect(Buffer.byteLength(text)).toBeGreaterThan(MAX_ROW - 600);
      const found = decoded(text);
      expect(found.row.problems).toBe(problems);
      expect(found.problems).toEqual(own.problems.slice(0, found.problems.length));
      expect([found.alertsTotal, found.alertsFiring]).toEqual([alerts, alerts / 2]);
      // Firing alerts come first.
      expect(found.alerts.every(({ state }) => state === 'firing')).toBe(true);
      expect(found.problems.length === 0).toBe(problems === 0);
      expect(found.alerts.length === 0).toBe(alerts === 0);
    },
  );

  it('decoding a status row of a newer version keeps its readable parts and still counts unreadable problems', () => {
    const newer = JSON.parse(encodeStatus(statusWith(2, [])));
    newer.problems[0].kind = 'of_a_later_version';
    newer.collectors[0].rounds[0].idle = 'of_a_later_version';
    const found = decoded(JSON.stringify({ ...newer, more: { of: 'a later version' } }));
    expect(found.row.problems).toBe(2);
    expect(found.problems).toEqual([problem(1)]);
    expect(found.collectors.map(({ collector }) => collector)).toEqual(['events', 'flow_control']);
  });
});

describe('reading status rows', () => {
  it('concurrent reads of the status rows share one query and wait at most a second for a database that hangs', async () => {
    const clock = createManualClock();
    const hangs = Promise.withResolvers<ReadonlyMap<string, string>>();
    let asked = 0;
    const store = {
      valuesOf: () => {
        asked += 1;
        return hangs.promise;
      },
    };
    const { refresh } = createStatusRows(store, clock);
    const answered: string[] = [];
    const ask = (name: string) => refresh().then(() => answered.push(name));
    const first = ask('first');
    await clock.advance(600);
    const second = ask('second');
    await clock.advance(399);
    expect(answered).toEqual([]);
    await clock.advance(1);
    await Promise.all([first, second]);
    await ask('third');
    expect(answered).toEqual(['first', 'second', 'third']);
    expect(asked).toBe(1);
    hangs.resolve(new Map());
    await clock.advance(5000);
    await refresh();
    expect(asked).toBe(2);
    expect(clock.sleepers).toBe(0);
  });

  it('the last status rows are kept while the database is unavailable', async () => {
    const clock = createManualClock();
    const text = encodeStatus(statusWith(0, []));
    let isUnavailable = false;
    const rows = createStatusRows(
      {
        async valuesOf(key) {
          expect(key).toBe(STATUS_KEY);
          if (isUnavailable) throw new Error('unavailable');
          return new Map([
            ['production', text],
            ['other', '{'],
          ]);
        },
      },
      clock,
    );
    expect(rows.of('production')).toBeUndefined();
    await rows.refresh();
    isUnavailable = true;
    await clock.advance(5000);
    await rows.refresh();
    expect(rows.of('production')).toEqual(decodeStatus(text));
    expect(rows.of('other')).toBe('unreadable');
  });
});
