import { describe, expect, it } from 'vitest';
import { counted, createAgent, createLog, HOUR, lives, MINUTE, SECOND } from './fake-log.ts';

describe('limit on tracked messages', () => {
  /** Creates an agent that tracks ten of a hundred open messages. */
  async function createFull() {
    const service = createLog();
    const agent = createAgent(service);
    agent.reconfigure({}, { maxOpen: 10 });
    await agent.round('tail');
    for (let number = 0; number < 100; number += 1) {
      service.add(`msg_${number}`, ['created'], service.clock.now + 1 + number);
    }
    await agent.run(2, 2 * MINUTE);
    return { ...service, agent };
  }

  it('the newest messages up to the limit are tracked, and older ones count as evicted', async () => {
    const { agent, clock, add } = await createFull();
    expect(agent.shown()).toMatchObject({ gauges: { inFlight: 10 }, log: { untracked: { evicted: 90 } } });
    expect(agent.rowsOf('open').length).toBe(10);
    for (let number = 0; number < 90; number += 1) add(`msg_${number}`, ['delivered'], clock.now + 1 + number);
    await agent.run(2, 2 * MINUTE);
    expect(lives(agent.shown())).toBe(0);
    for (let number = 90; number < 100; number += 1) add(`msg_${number}`, ['delivered'], clock.now + 1 + number);
    await agent.run(2, 2 * MINUTE);
    expect(lives(agent.shown())).toBe(10);
    expect(agent.shown().log.untracked).toEqual({ evicted: 90, unknown_start: 90 });
    expect(agent.rowsOf('open')).toEqual([]);
  });

  it('the newest messages are tracked after a restart', async () => {
    const { agent, clock, add } = await createFull();
    agent.kill();
    for (let number = 100; number < 105; number += 1) add(`msg_${number}`, ['created'], clock.now + 1 + number);
    await agent.run(2, 2 * MINUTE);
    expect(agent.shown().log.untracked.evicted).toBe(95);
    for (let number = 95; number < 105; number += 1) add(`msg_${number}`, ['delivered'], clock.now + 1 + number);
    await agent.run(2, 2 * MINUTE);
    expect(lives(agent.shown())).toBe(10);
  });

  it('tracked messages are evicted when the limit is reduced', async () => {
    const { agent, clock, add } = await createFull();
    agent.reconfigure({}, { maxOpen: 3 });
    add('msg_100', ['created'], clock.now + 1);
    await agent.run(2, 2 * MINUTE);
    expect(agent.shown()).toMatchObject({ gauges: { inFlight: 3 }, log: { untracked: { evicted: 98 } } });
    expect(agent.rowsOf('open').length).toBe(3);
  });

  it('tracked messages are dropped after two weeks without events', async () => {
    const { agent, clock, add } = await createFull();
    clock.now += 15 * 24 * HOUR;
    add('msg_last', ['created'], clock.now - 1);
    await agent.run(2, 2 * MINUTE);
    expect(agent.shown()).toMatchObject({ gauges: { inFlight: 1 }, log: { untracked: { evicted: 100 } } });
  });
});

describe('event deduplication', () => {
  it.each([
    ['a sweep', { lateSweep: '10m' }, 20],
    ['no sweep', { lateSweep: '60s' }, 5],
  ])('deduplication stores a bounded number of minutes and chunks with %s', async (_with, options, most) => {
    const service = createLog();
    const { clock, log } = service;
    const agent = createAgent(service, options);
    await agent.round('tail');
    for (let minute = 0; minute < 300; minute += 1) {
      service.add(`msg_${minute}`, ['created', 'delivered'], clock.now + 50 * SECOND);
      await agent.run(1, MINUTE);
      if (minute % 2 === 0 && options.lateSweep !== '60s') await agent.round('sweep');
      expect(agent.rowsOf('minute').length).toBeLessThan(most);
      expect(agent.rowsOf('chunk').length).toBeLessThan(5);
    }
    expect(counted(agent.shown())).toBe(log.length);
    expect(agent.rowsOf('open').length).toBeLessThan(3);
  });

  it('each read starts one overlap before the newest known event', async () => {
    const service = createLog();
    const { clock, service: asks } = service;
    const agent = createAgent(service);
    await agent.round('tail');
    for (let number = 0; number < 40; number += 1) {
      service.add(`msg_${number}`, ['retry'], clock.now + 14 * SECOND);
      await agent.run(1);
      // The newest known event was 16 seconds old at the time of this read.
      if (number > 0) expect(asks.asked.at(-1)).toEqual({ from: clock.now - 76 * SECOND, to: clock.now });
    }
  });

  it('deduplication drops the stored minutes when the sweep is disabled', async () => {
    const service = createLog();
    const agent = createAgent(service, { lateSweep: '30m' });
    await agent.round('tail');
    for (let minute = 0; minute < 20; minute += 1) {
      service.add(`msg_${minute}`, ['retry'], service.clock.now + 1);
      await agent.run(1, MINUTE);
    }
    expect(agent.rowsOf('minute').length).toBeGreaterThan(15);
    agent.reconfigure({ lateSweep: '60s' });
    await agent.run(1);
    expect(agent.rowsOf('minute').length).toBeLessThan(5);
  });
});

describe('backlogs', () => {
  it.each(['up', 'down', 'mixed'] as const)(
    'a backlog is read in ranges with few wasted pages if the order of the log is: %s',
    async order => {
      const service = createLog({ page: 10, order });
      const { clock, log, service: asks } = service;
      const agent = createAgent(service);
      await agent.round('tail');
      // Events are dense at first, then sparse, then dense again.
      for (let number = 0; number < 3000; number += 1) {
        const at = number < 1000 ? number * 10 : number < 2000 ? number * SECOND : 2100 * SECOND + number * 10;
        service.add(`msg_${number}`, ['created', 'delivered'], clock.now + 1 + at);
      }
      clock.now += 10 * HOUR;
      asks.requests = 0;
      const needed = log.length / 10;
      for (let isLast = false; !isLast; ) {
        const before = asks.requests;
        const known = counted(agent.shown());
        isLast = await agent.step('tail');
        expect(asks.requests - before).toBeLessThanOrEqual(10);
        expect(counted(agent.shown()) - known).toBeLessThan(500);
      }
      expect(counted(agent.shown())).toBe(log.length);
      expect(agent.shown().log).toMatchObject({ late: 0, gaps: 0 });
      expect(asks.requests).toBeLessThan(2 * needed);
    },
  );

  it('a backlog is read completely even if the events of one millisecond fill more pages than a range should have', async () => {
    const service = createLog({ page: 10 });
    const { clock, log, service: asks } = service;
    const agent = createAgent(service);
    await agent.round('tail');
    const time = clock.now + SECOND;
    for (let number = 0; number < 400; number += 1) service.add(`msg_${number}`, ['created'], time);
    for (let number = 0; number < 400; number += 1) service.add(`msg_${number}`, ['delivered'], time + 1 + number);
    asks.requests = 0;
    await agent.run(1);
    expect(counted(agent.shown())).toBe(log.length);
    expect(asks.requests).toBeLessThan(600);
  });

  it('a backlog is read completely if a page has 10,000 rows', async () => {
    const service = createLog({ page: 10_000 });
    const { clock, log } = service;
    const agent = createAgent(service);
    await agent.round('tail');
    for (let number = 0; number < 60_000; number += 1) {
      service.add(`msg_${number}`, ['retry'], clock.now + 1 + (number % 9000));
    }
    await agent.run(1);
    expect(counted(agent.shown())).toBe(log.length);
  });
});

describe('unreliable services', () => {
  it.each([
    [['from', 'to'], 'up'],
    [['from', 'to'], 'down'],
    [['from'], 'mixed'],
    [['to'], 'up'],
    [['to'], 'mixed'],
  ] as const)(
    'a service that ignores %j of a range is read to the end of its log in a bounded number of requests',
    async (ignores, order) => {
      const service = createLog({ page: 10, ignores, order });
      const { clock, service: asks } = service;
      for (let number = 0; number < 300; number += 1) {
        service.add(`msg_old_${number}`, ['retry'], clock.now - number * MINUTE);
      }
      const agent = createAgent(service);
      await agent.round('tail');
      for (let number = 0; number < 300; number += 1) {
        service.add(`msg_${number}`, ['retry'], clock.now + 1 + number * SECOND);
      }
      await agent.run(2, 10 * MINUTE);
      await agent.run(1, HOUR);
      await agent.round('sweep');
      expect(counted(agent.shown())).toBe(300);
      expect(agent.shown().log).toMatchObject({ late: 0, gaps: 0, duplicates: 0 });
      // The whole log has 60 pages.
      expect(asks.requests).toBeLessThan(60 * 60);
    },
  );

  it('a service that returns many empty pages is read to the end of each range', async () => {
    const service = createLog({ page: 10, empty: 35 });
    const { clock, log, service: asks } = service;
    const agent = createAgent(service);
    await agent.round('tail');
    for (let number = 0; number < 100; number += 1) service.add(`msg_${number}`, ['retry'], clock.now + 1 + number);
    asks.asked.length = 0;
    await agent.run(1);
    expect(counted(agent.shown())).toBe(log.length);
    expect(asks.asked.length).toBe(1);
  });

  it('a row that the service lists twice is counted once, even after repeated reads', async () => {
    const service = createLog({ page: 7 });
    const { clock } = service;
    const agent = createAgent(service);
    await agent.round('tail');
    for (let number = 0; number < 9; number += 1) {
      service.add(`msg_${number}`, ['retry'], clock.now + 1 + number, number < 4 ? { twice: true } : {});
    }
    await agent.run(10, 5 * SECOND);
    agent.kill();
    await agent.run(10, 5 * SECOND);
    expect(counted(agent.shown())).toBe(9);
    expect(agent.shown().log.duplicates).toBe(4);
  });

  it('each event is counted exactly once, regardless of which request fails', async () => {
    const service = createLog({ page: 3, order: 'up' });
    const { clock, log, service: asks } = service;
    const agent = createAgent(service);
    await agent.round('tail');
    for (let number = 0; number < 100; number += 1) {
      service.add(`msg_${number}`, ['created', 'delivered'], clock.now + number * SECOND);
    }
    for (let turn = 0; turn < 40; turn += 1) {
      asks.failsAt = asks.requests + 1 + turn;
      await agent.run(1, 5 * SECOND).catch(() => undefined);
    }
    asks.failsAt = 0;
    await agent.run(2, MINUTE);
    // The first event is in the millisecond of the first read and therefore counts as history.
    expect(counted(agent.shown())).toBe(log.length - 1);
    expect(agent.shown().log).toMatchObject({ late: 0, gaps: 0, duplicates: 0 });
  });
});

it('a read of 375 events in pages of ten needs fewer than 44 requests on average', async () => {
  const service = createLog({ page: 10, order: 'up' });
  const agent = createAgent(service);
  await agent.round('tail');
  for (let number = 0; number < 6000; number += 1) {
    service.add(`msg_${number}`, ['retry'], service.clock.now + 1 + number * 200);
  }
  await agent.run(20);
  service.service.requests = 0;
  await agent.run(40);
  // Each read covers 75 seconds: 375 events in 38 pages, plus incomplete pages at the ends of ranges.
  expect(service.service.requests).toBeLessThan(40 * 44);
});
