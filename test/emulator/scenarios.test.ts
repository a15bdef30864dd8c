import { expect, test } from 'vitest';
import { ask, emptyEmulator, emulator, frozen } from './emulated.ts';

const MINUTE = 60_000;

test('outage: the API is down for 5 of every 15 minutes of emulated time while deliveries continue', async () => {
  const emulated = await emptyEmulator({ scenario: 'outage' });
  const found: string[] = [];
  for (let minute = 0; minute < 30; minute++) {
    const { status } = await ask(emulated, '/v2/dlq');
    found.push(status === 503 ? 'x' : status === 200 ? '.' : '?');
    emulated.clock.advance(MINUTE);
  }
  expect(found.join('')).toBe('..........xxxxx..........xxxxx');
  expect(emulated.state.countEvents({ from: emulated.clock.now() - 5 * MINUTE }).delivered).toBeGreaterThan(100);
  emulated.faults.add({ kind: 'status', status: 500 });
  expect((await ask(emulated, '/v2/dlq')).status).toBe(500);
});

test('log-lag: events are delayed, are withheld for 5 of every 15 minutes, and remain listed once listed', async () => {
  const emulated = await emulator({ scenario: 'log-lag' });
  const start = emulated.clock.now();
  const ages: number[] = [];
  let listedBefore = 0;
  for (let minute = 0; minute < 30; minute++) {
    const [newest] = (await ask(emulated, '/v2/events?count=1')).body.events;
    const listedUntil = (await ask(emulated, '/_emulator/state')).body.events.listedUntil;
    const age = emulated.clock.now() - listedUntil;
    expect(Number(newest.time)).toBeLessThanOrEqual(listedUntil);
    expect(listedUntil).toBeGreaterThanOrEqual(listedBefore);
    listedBefore = listedUntil;
    ages.push(age / 1000);
    emulated.clock.advance(MINUTE);
  }
  const cycle = [...Array(11).fill(20), 80, 140, 200, 260];
  expect(ages).toEqual([...cycle, ...cycle]);
  expect(emulated.clock.now()).toBe(start + 30 * MINUTE);
});

test('rate-limited: 40 % of requests get 429 with Retry-After: 1', async () => {
  const emulated = await emptyEmulator({ scenario: 'rate-limited' });
  let limited = 0;
  for (let request = 0; request < 100; request++) {
    const response = await fetch(`${emulated.url}/v2/dlq`, { headers: { authorization: `Bearer ${emulated.token}` } });
    if (response.status !== 429) continue;
    expect(response.headers.get('retry-after')).toBe('1');
    limited++;
  }
  expect(limited).toBeGreaterThan(25);
  expect(limited).toBeLessThan(55);
});

test('flow-control-pileup: waitlists grow during two busy hours and drain during two quiet ones', () => {
  /** Returns the total length of waitlists every 15 minutes over four hours. */
  const waiting = (options: Parameters<typeof frozen>[0]) => {
    const { clock, state } = frozen(options);
    return Array.from({ length: 16 }, () => {
      clock.advance(15 * MINUTE);
      return [...state.waitlists().values()].reduce((sum, size) => sum + size, 0);
    });
  };
  // With a single seed, bursts may fall in the quiet hours.
  const sums = [1, 2, 3, 4].flatMap(seed => waiting({ scenario: 'flow-control-pileup', seed }));
  const total = (rest: number) => sums.filter((_, index) => index % 16 === rest).reduce((sum, each) => sum + each, 0);
  // Index 7 is the end of the busy hours, index 15 the end of the quiet hours.
  expect(total(7)).toBeGreaterThan(3 * total(15));
  expect(Math.max(...sums)).toBeGreaterThan(2 * Math.max(...waiting({})));
});

test('schedule-missed: a schedule fires every minute, stops for five minutes, and later all its deliveries fail', async () => {
  const emulated = await emptyEmulator({ scenario: 'schedule-missed', workload: true });
  const start = emulated.clock.now();
  emulated.clock.advance(20 * MINUTE);
  const { body } = await ask(emulated, '/v2/events?scheduleId=scd_7minutely&count=1000');
  const times = (state: string): number[] =>
    body.events.flatMap((event: { state: string; time: string }) =>
      event.state === state ? [Number(event.time)] : [],
    );
  const minutes = times('created').map(time => Math.floor((time - start) / MINUTE));
  expect(times('created').every(time => time % MINUTE === 0)).toBe(true);
  expect(minutes.filter(minute => minute >= 5 && minute < 10)).toEqual([]);
  expect(minutes.length).toBeGreaterThanOrEqual(14);
  expect(times('delivered').some(time => time > start + 11 * MINUTE)).toBe(true);
  expect(times('delivered').filter(time => time > start + 17 * MINUTE)).toEqual([]);
});

test('steady: schedules start only on time, although operators republish their dead letters', () => {
  const { state } = frozen({ scenario: 'steady' });
  const created = state
    .eventRows()
    .filter(row => row.state === 'created' && row.url === 'https://reports.example.com/run');
  const { started = [], republished = [] } = Object.groupBy(created, ({ scheduleId }) =>
    scheduleId === undefined ? 'republished' : 'started',
  );
  expect(started.length).toBeGreaterThan(50);
  expect(started.filter(({ time }) => Number(time) % MINUTE !== 0)).toEqual([]);
  expect(republished.length).toBeGreaterThan(0);
});
