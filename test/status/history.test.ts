import { expect, it } from 'vitest';
import type { RecordedSeries } from '../../src/model/history.ts';
import { HistoryView } from '../../src/status/api/history.ts';
import { createHistoryView } from '../../src/status/history.ts';

const NOW = Date.UTC(2026, 0, 3);
const HOUR = 3_600_000;
const MINUTE = 60_000;

function viewOf(recorded: RecordedSeries) {
  const asked: object[] = [];
  const history = {
    read(query: object) {
      asked.push(query);
      return Promise.resolve(recorded);
    },
    recent: () => [],
  };
  const view = createHistoryView(
    name => (name === 'a' ? history : undefined),
    { keep: 48 * HOUR, maxMB: 100 },
    { now: () => NOW },
  );
  return { view, asked };
}

const query = { family: ['delivery_dlq_messages'], over: '1h', points: 10 };

it('the history view reads the selected families and returns them in the format of the API', async () => {
  const { view, asked } = viewOf({
    times: [NOW - MINUTE, NOW],
    series: new Map([['delivery_dlq_messages_by_url_host{url_host="a\\"b"}', [5, null]]]),
  });
  const answer = await view('a', query);
  expect(asked).toEqual([{ from: NOW - HOUR, to: NOW, families: ['delivery_dlq_messages'] }]);
  expect(HistoryView.parse(answer)).toEqual({
    now: '2026-01-03T00:00:00.000Z',
    account: 'a',
    keptFor: '2d',
    times: [NOW / 1000 - 60, NOW / 1000],
    series: [{ family: 'delivery_dlq_messages_by_url_host', labels: { url_host: 'a"b' }, values: [5, null] }],
  });
  expect(await view('b', query)).toBeUndefined();
});

it('the history view thins points evenly, and keeps the newest point and the start of each gap', async () => {
  const times = Array.from({ length: 100 }, (_, index) => NOW - (99 - index) * MINUTE);
  const values = times.map((_, index) => (index >= 41 && index < 44 ? null : index));
  const { view } = viewOf({ times, series: new Map([['delivery_dlq_messages', values]]) });
  const answer = await view('a', query);
  expect(answer?.series[0]?.values).toEqual([9, 19, 29, 39, null, 49, 59, 69, 79, 89, 99]);
  expect(answer?.times.at(-1)).toBe(NOW / 1000);
});

it('the history view returns no series if none were recorded', async () => {
  const { view } = viewOf({ times: [], series: new Map() });
  expect(await view('a', query)).toMatchObject({ times: [], series: [] });
});
