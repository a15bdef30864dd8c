import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { EventSeed } from '../../src/emulator/added.ts';
import { LOG_STATES, type LogState } from '../../src/emulator/message.ts';
import { runs } from '../support/runs.ts';
import { ask, emptyEmulator, frozen, HOUR, NOON, walk } from './emulated.ts';

const seed = fc.record(
  {
    time: fc.integer({ min: NOON - 50, max: NOON }),
    messageId: fc.constantFrom('a', 'b'),
    state: fc.constantFrom<LogState>(...LOG_STATES),
    url: fc.constantFrom('https://a.example/', 'https://b.example/'),
    queueName: fc.constantFrom('q', 'r'),
    labels: fc.constantFrom(['x'], ['x', 'y']),
    label: fc.constantFrom('x', 'z'),
    responseStatus: fc.constantFrom(200, 500),
    error: fc.constantFrom('no', 'never'),
    notBefore: fc.integer({ min: NOON, max: NOON + 50 }),
    body: fc.string(),
  },
  { requiredKeys: [] },
);

test('adding events in bulk, in any order, has the same result as adding them one by one', () => {
  const property = fc.property(fc.array(seed, { maxLength: 40 }), fc.nat(40), (seeds, cut) => {
    const [one, many] = [frozen({ history: 0 }).state, frozen({ history: 0 }).state];
    for (const each of seeds) one.addEvent(each as EventSeed);
    many.addEvents(seeds.slice(0, cut) as EventSeed[]);
    many.addEvents(new Set(seeds.slice(cut)) as Set<EventSeed>);
    expect(many.eventRows()).toEqual(one.eventRows());
    expect(many.countEvents()).toEqual(one.countEvents());
  });
  fc.assert(property, { numRuns: runs(100) });
});

test('addEvents accepts an iterator that reads the log during iteration', () => {
  const { state } = frozen({ history: 0 });
  function* seeds() {
    for (const age of [1, 3, 2]) yield { time: NOON - age, body: String(state.eventRows().length) };
  }
  state.addEvents(seeds());
  expect(state.eventRows().map(row => [NOON - Number(row.time), atob(row.body)])).toEqual([
    [3, '0'],
    [2, '0'],
    [1, '0'],
  ]);
});

describe('a page of a log with many events', () => {
  const COUNT = 200_000;
  const step = (5 * HOUR) / COUNT;

  test.each([
    {},
    { logLateShare: 0.2, logLateMs: 60_000, logDuplicates: 0.1 },
    { logLateShare: 1, logLateMs: 20_000, logDuplicates: 0.5, cursorSeam: 'repeats' },
  ] as const)('a page of a log with many events reads only a few of them: %j', async dialect => {
    const emulated = await emptyEmulator({ dialect });
    const { state } = emulated;
    function* seeds() {
      for (let index = 0; index < COUNT; index++)
        yield {
          messageId: `m${index >> 2}`,
          time: NOON - 5 * HOUR + Math.floor(index * step),
          url: 'https://a.example/',
        };
    }
    state.addEvents(seeds());
    const { log } = state.current();
    let visited = 0;
    const walkLog = log.walk.bind(log);
    log.walk = (range, visit) =>
      walkLog(range, (...row) => {
        visited++;
        return visit(...row);
      });
    // A walk visits the rows of the page plus delayed events that are not listed yet.
    const late = 20_000 / step;
    const size = async (query: string) => {
      visited = 0;
      const { body } = await ask(emulated, `/v2/events?${query}`);
      return [body.events.length, visited < 1010 + 2 * late];
    };
    const between = `fromDate=${NOON - 2 * HOUR}&toDate=${NOON - HOUR}`;
    for (const query of ['', 'order=earliestFirst', between, `${between}&order=earliestFirst`])
      expect(await size(query)).toEqual([1000, true]);
    const { cursor } = (await ask(emulated, `/v2/events?${between}`)).body;
    expect(await size(`${between}&cursor=${cursor}`)).toEqual([1000, true]);
    const minute = [
      ['fromDate', String(NOON - HOUR)],
      ['toDate', String(NOON - HOUR + 60_000)],
    ] as const;
    const found = new Set((await walk(emulated, 'events', minute)).map(row => `${row.messageId} ${row.time}`));
    const truth = state.eventRows().filter(row => Math.abs(Number(row.time) - (NOON - HOUR + 30_000)) <= 30_000);
    expect(found).toEqual(new Set(truth.map(row => `${row.messageId} ${row.time}`)));
    expect(truth.length).toBeGreaterThan(600);
  });
});
