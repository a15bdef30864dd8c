import { join } from 'node:path';
import { expect, it } from 'vitest';
import { type BackfillOrder, backfill } from '../../../src/cli/backfill/run.ts';
import { createSeriesFile } from '../../../src/cli/backfill/series-file.ts';
import { parseConfig } from '../../../src/config/load.ts';
import type { EventSeed } from '../../../src/emulator/added.ts';
import { systemClock } from '../../../src/kit/clock.ts';
import { counter, histogram } from '../../../src/metrics/family.ts';
import { openSqliteStore } from '../../../src/store/sqlite.ts';
import { emulateEmpty } from '../../support/emulate.ts';
import { newFolder } from '../../support/folder.ts';

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
/** Label of the last bucket of a histogram, which counts all observations. */
const INF: Readonly<Record<string, string>> = { le: '+Inf' };
const mark = (time: number) => Math.ceil(time / MINUTE) * MINUTE;

/** Returns the three events of a message, one second apart. */
const life = (messageId: string, time: number, host: string): EventSeed[] =>
  (['created', 'active', 'delivered'] as const).map((state, index) => ({
    messageId,
    state,
    time: time + index * SECOND,
    url: `https://${host}.example.com/`,
    ...(state === 'delivered' && { responseStatus: 200 }),
  }));

async function setUp(account: object = {}) {
  const emulator = await emulateEmpty();
  const path = join(newFolder(), 'x.db');
  const loaded = parseConfig(
    JSON.stringify({
      log: { level: 'silent' },
      store: { path },
      accounts: [{ name: 'a', baseUrl: emulator.url, token: emulator.token, ...account }],
      collect: { events: { destination: 'host' } },
    }),
    'x.yaml',
    {},
  );
  async function fill(range: Pick<BackfillOrder, 'from' | 'to'>) {
    let text = '';
    const results = await backfill(
      loaded,
      { ...range, labels: () => ({ job: 'dw', instance: 'x' }) },
      {
        env: {},
        clock: systemClock,
        random: () => 0,
        signal: new AbortController().signal,
        onProgress: () => undefined,
        async write(pieces) {
          text = [...pieces].join('');
        },
      },
    );
    return { results, text };
  }
  return { emulator, path, fill };
}

/** Returns the points of the series with this prefix as [time (ms), value]. */
const pointsOf = (text: string, series: string) =>
  text
    .split('\n')
    .filter(line => line.startsWith(series))
    .map(line => line.split(' ').slice(-2).map(Number) as [value: number, time: number])
    .map(([value, time]) => [Math.round(time * 1000), value]);

it('backfill writes a point for each minute, and starts the series of new destinations at 0', async () => {
  const { emulator, fill } = await setUp({ retention: { events: '1d' } });
  const from = mark(Date.now() - 3 * HOUR);
  const minutes = 100;
  emulator.state.addEvents([
    ...life('before', from - MINUTE, 'one'),
    ...life('first', from + 10 * SECOND, 'one'),
    // At most 64 points are buffered: the first point of this series is the last point of the first block.
    ...life('late', from + 63 * MINUTE + 10 * SECOND, 'two'),
    ...life('over', from + 70 * MINUTE - 2 * SECOND, 'two'),
  ]);
  const { results, text } = await fill({ from, to: from + minutes * MINUTE });
  expect(results).toMatchObject([
    { written: { from, to: from + minutes * MINUTE, points: minutes + 1 }, events: 9 + 3 },
  ]);
  const names = [...text.matchAll(/^(?:# TYPE )?(delivery_\w+?)(?:_total|_bucket|_sum|_count)?[{ ]/gm)].map(
    ([, name]) => name,
  );
  const runs = names.filter((name, index) => name !== names[index - 1]);
  // All samples of a family are contiguous.
  expect(new Set(runs).size).toBe(runs.length);
  expect(text.endsWith('\n# EOF\n')).toBe(true);
  const delivered = (host: string) =>
    pointsOf(
      text,
      `delivery_messages_finished_total{account="a",job="dw",instance="x",outcome="delivered",destination="${host}.example.com"} `,
    );
  expect(delivered('one')).toEqual(
    Array.from({ length: minutes + 1 }, (_, minute) => [from + minute * MINUTE, minute < 1 ? 0 : 1]),
  );
  expect(delivered('two').slice(0, 2)).toEqual([
    [from + 63 * MINUTE, 0],
    [from + 64 * MINUTE, 1],
  ]);
  // The message `over` ends exactly at this point.
  expect(delivered('two').find(([time]) => time === from + 70 * MINUTE)?.[1]).toBe(2);
});

it('backfill omits families that the account excludes', async () => {
  const exclude = ['delivery_messages_finished_total', 'delivery_message_time_*'];
  const { emulator, fill } = await setUp({ collect: { families: { exclude } } });
  const from = mark(Date.now() - HOUR);
  emulator.state.addEvents(life('only', from + 10 * SECOND, 'one'));
  const { text } = await fill({ from, to: from + 5 * MINUTE });
  expect(text).toContain('# TYPE delivery_events counter');
  expect(text).not.toMatch(/delivery_messages_finished|delivery_message_time_/);
});

it('backfill starts at the first listed event if the retention is unknown', async () => {
  const { emulator, fill } = await setUp();
  const from = mark(Date.now() - 3 * HOUR);
  emulator.state.addEvents(life('only', from + HOUR + 10 * SECOND, 'one'));
  const { results } = await fill({ from, to: from + 2 * HOUR });
  expect(results).toMatchObject([{ written: { from: from + HOUR, to: from + 2 * HOUR } }]);
});

it('backfill rejects a range in which the agent was already counting events, and ends an open-ended range at the start of counting', async () => {
  const { emulator, path, fill } = await setUp();
  const floor = Date.now() - 2 * HOUR;
  emulator.state.addEvents(life('only', floor - HOUR, 'one'));
  const store = await openSqliteStore({ path });
  const times = { floor, newest: floor, readTo: floor, judgedLast: floor, sweptTo: floor, foundAt: floor };
  const checkpoint = { ...times, rememberedFrom: floor - MINUTE, judgedTo: floor - MINUTE, nextChunk: 0 };
  await store.commit('a', [{ key: 'events/checkpoint', value: JSON.stringify(checkpoint) }]);
  await store.close();
  const refused = await fill({ from: floor - 2 * HOUR, to: floor + MINUTE });
  expect(refused.text).toBe('');
  expect(refused.results.map(({ refusal }) => refusal)).toEqual([
    expect.stringContaining(`the agent has counted events since ${new Date(floor).toISOString()}`),
  ]);
  // The range ends at the exact millisecond at which counting started.
  expect((await fill({ from: floor - 2 * HOUR, to: undefined })).results).toMatchObject([{ written: { to: floor } }]);
});

it('a series file groups the points of all accounts by family and series', () => {
  const total = counter('x_total', 'Some.', ['of']);
  const seconds = histogram('y_seconds', 'Others.');
  const file = createSeriesFile(account => ({ instance: `i-${account}` }));
  function point(account: string, time: number, values: readonly number[]): void {
    file.begin(time);
    for (const [index, value] of values.entries()) {
      if (value >= 0) file.set(file.of(account, total, { labels: { of: `${index}"` } }), value);
    }
    file.set(file.of(account, seconds, { suffix: '_bucket', labels: INF }), values[0] ?? 0);
    file.set(file.of(account, seconds, { suffix: '_count', labels: {} }), values[0] ?? 0);
  }
  point('a', 1500, [1, -1]);
  point('a', 2000, [2, 5]);
  file.startAtZero(file.of('a', total, { labels: { of: '1"' } }));
  point('a', 3000, [3, 6]);
  file.endAccount();
  point('b', 1000, [7]);
  file.endAccount();
  expect([...file.text()].join('')).toBe(
    [
      '# HELP x Some.',
      '# TYPE x counter',
      'x_total{account="a",instance="i-a",of="0\\""} 1 1.5',
      'x_total{account="a",instance="i-a",of="0\\""} 2 2',
      'x_total{account="a",instance="i-a",of="0\\""} 3 3',
      'x_total{account="a",instance="i-a",of="1\\""} 0 1.5',
      'x_total{account="a",instance="i-a",of="1\\""} 5 2',
      'x_total{account="a",instance="i-a",of="1\\""} 6 3',
      'x_total{account="b",instance="i-b",of="0\\""} 7 1',
      '# HELP y_seconds Others.',
      '# TYPE y_seconds histogram',
      '# UNIT y_seconds seconds',
      'y_seconds_bucket{account="a",instance="i-a",le="+Inf"} 1 1.5',
      'y_seconds_count{account="a",instance="i-a"} 1 1.5',
      'y_seconds_bucket{account="a",instance="i-a",le="+Inf"} 2 2',
      'y_seconds_count{account="a",instance="i-a"} 2 2',
      'y_seconds_bucket{account="a",instance="i-a",le="+Inf"} 3 3',
      'y_seconds_count{account="a",instance="i-a"} 3 3',
      'y_seconds_bucket{account="b",instance="i-b",le="+Inf"} 7 1',
      'y_seconds_count{account="b",instance="i-b"} 7 1',
      '# EOF',
      '',
    ].join('\n'),
  );
  file.close();
});
