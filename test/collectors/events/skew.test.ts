import { describe, expect, it } from 'vitest';
import { schedulesOptions } from '../../../src/collectors/events/schedule-options.ts';
import type { Reader } from '../../../src/upstream/api.ts';
import { createServiceClock } from '../../../src/upstream/service-clock.ts';
import { counted, createAgent, createLog, HOUR, MINUTE, SECOND } from './fake-log.ts';

const WHOLE = ['created', 'active', 'delivered'];
const EVERY_MINUTE = { name: 'minutely', match: { scheduleId: 'scd_1' }, cron: '* * * * *', grace: '30s' };

/** Creates a service that sends a `Date`, and an agent with a clock ahead of the service's by `skew` (ms). */
function createScene(skew: number, dateOf: (now: number) => string | undefined = now => new Date(now).toUTCString()) {
  const service = createLog();
  const { clock } = service;
  clock.now = Date.parse('2026-06-01T12:00:10Z');
  const start = clock.now;
  const dated = { of: dateOf };
  let serviceClock: ReturnType<typeof createServiceClock>;
  const api = {
    eventPages(...query: Parameters<Reader['eventPages']>) {
      const pages = service.api.eventPages(...query);
      return {
        async next() {
          const onHeaders = serviceClock.startRequest();
          const page = await pages.next();
          if (!page.done) onHeaders({ date: dated.of(clock.now), isDoubtful: false });
          return page;
        },
      };
    },
  } as Reader;
  const agent = createAgent({ api, clock });
  function restart(): void {
    const agentClock = { now: () => clock.now + agent.skew, monotonic: () => clock.now - start };
    serviceClock = createServiceClock(agentClock);
    agent.reconfigure({}, { schedules: schedulesOptions.parse([EVERY_MINUTE]), serviceClock });
  }
  agent.skew = skew;
  restart();
  let added = 0;
  return {
    service,
    agent,
    clock,
    dated,
    restart,
    skew: () => serviceClock.skew(),
    added: () => added,
    /** Reads every 15 s for `minutes`. A scheduled message starts at each minute, another one 11 s before each read. */
    async watch(minutes: number): Promise<void> {
      for (let round = 0; round < minutes * 4; round += 1) {
        service.add(`msg_${added}`, WHOLE, clock.now + 4 * SECOND);
        const next = Math.ceil(clock.now / MINUTE) * MINUTE;
        const isStart = next > clock.now && next <= clock.now + 15 * SECOND;
        if (isStart) service.add(`started_${added}`, WHOLE, next + SECOND, { schedule: 'scd_1' });
        added += isStart ? 2 : 1;
        await agent.run(1);
      }
    },
  };
}

type Scene = ReturnType<typeof createScene>;

const stateOf = ({ agent }: Scene) => {
  const { gauges, log, schedules } = agent.shown();
  const { missed, late } = schedules.get('minutely') ?? {};
  return {
    // 20 messages of four reads a minute and five scheduled ones.
    recent: gauges?.recent.delivered,
    inFlight: gauges?.inFlight,
    overdue: log.overdue,
    late: log.late,
    gaps: log.gaps,
    schedule: [missed, late],
  };
};

const RIGHT = { recent: 25, inFlight: 0, overdue: 0, late: 0, gaps: 0, schedule: [0, 0] };

const SKEWS = [90_000, -90_000, 600_000, -600_000, 3 * HOUR, -3 * HOUR];

describe.each(SKEWS)('with an agent that is ahead of the service by %d ms', skew => {
  it('events are counted once and in time, and no start is missed, although the clock of the agent is wrong', async () => {
    const scene = createScene(skew);
    await scene.agent.round('tail');
    await scene.watch(12);
    expect(stateOf(scene)).toEqual(RIGHT);
    expect(counted(scene.agent.shown())).toBe(3 * scene.added());
    expect(Math.abs((scene.skew() ?? 0) + skew)).toBeLessThan(SECOND);
  });

  it('a restart counts no event twice and no message as overdue', async () => {
    const scene = createScene(skew);
    await scene.agent.round('tail');
    await scene.watch(6);
    scene.service.add('msg_slow', ['created'], scene.clock.now - 10 * SECOND);
    scene.restart();
    await scene.watch(4);
    expect(stateOf(scene)).toEqual({ ...RIGHT, inFlight: 1 });
    expect(counted(scene.agent.shown())).toBe(3 * scene.added() + 1);
  });

  it('counters stay correct when the clock of the agent is corrected', async () => {
    const scene = createScene(skew);
    await scene.agent.round('tail');
    await scene.watch(6);
    scene.agent.skew = 0;
    await scene.watch(6);
    expect(stateOf(scene)).toEqual(RIGHT);
    expect(counted(scene.agent.shown())).toBe(3 * scene.added());
    expect(scene.skew()).toBe(0);
  });

  it('counters stay correct when the clock of the agent becomes wrong after its start', async () => {
    const scene = createScene(0);
    await scene.agent.round('tail');
    await scene.watch(6);
    scene.agent.skew = skew;
    await scene.watch(6);
    expect(stateOf(scene)).toEqual(RIGHT);
    expect(counted(scene.agent.shown())).toBe(3 * scene.added());
  });

  it('a wrong Date is not used if event times contradict it', async () => {
    const scene = createScene(0);
    scene.dated.of = now => new Date(now + skew).toUTCString();
    scene.service.add('msg_before', WHOLE, scene.clock.now - 5 * SECOND);
    await scene.agent.round('tail');
    await scene.watch(12);
    expect(stateOf(scene)).toEqual(RIGHT);
    expect(counted(scene.agent.shown())).toBe(3 * scene.added());
    expect(scene.skew()).toBe(0);
  });

  it('a wrong Date hides no events even if the log was empty at the first read', async () => {
    const scene = createScene(0);
    scene.dated.of = now => new Date(now + skew).toUTCString();
    await scene.agent.round('tail');
    await scene.watch(12);
    expect(stateOf(scene)).toMatchObject({ recent: 25, inFlight: 0, overdue: 0, late: 0, gaps: 0 });
    expect(counted(scene.agent.shown())).toBe(3 * scene.added());
  });

  it('a Date that becomes wrong later is not used if event times contradict it', async () => {
    const scene = createScene(0);
    await scene.agent.round('tail');
    await scene.watch(6);
    scene.dated.of = now => new Date(now + skew).toUTCString();
    await scene.watch(8);
    expect(stateOf(scene)).toEqual(RIGHT);
    expect(counted(scene.agent.shown())).toBe(3 * scene.added());
    expect(scene.skew()).toBe(0);
  });
});

it.each([
  ['no Date', () => undefined],
  ['an unreadable Date', () => 'soon'],
])('with %s the clock of the agent is used', async (_, dateOf) => {
  const scene = createScene(0, dateOf);
  await scene.agent.round('tail');
  await scene.watch(12);
  expect(stateOf(scene)).toEqual(RIGHT);
  expect(scene.skew()).toBeUndefined();
});

it.each([
  ['the year 9999', () => 'Fri, 31 Dec 9999 23:59:59 GMT'],
  ['the year 1970', () => 'Thu, 01 Jan 1970 00:00:00 GMT'],
  ['a random hour', (now: number) => new Date(now + ((Math.floor(now / SECOND) * 7919) % 50) * HOUR).toUTCString()],
])('a Date of %s neither hides events nor floods the service', async (_, dateOf) => {
  const scene = createScene(0, dateOf);
  await scene.agent.round('tail');
  const { requests } = scene.service.service;
  await scene.watch(12);
  expect(stateOf(scene)).toEqual(RIGHT);
  expect(scene.service.service.requests - requests).toBeLessThanOrEqual(12 * 5 + 2);
});

it('a correct Date header does not change how often an account is read', async () => {
  const requests = await Promise.all(
    [undefined, () => undefined].map(async dateOf => {
      const scene = createScene(0, dateOf);
      await scene.agent.round('tail');
      await scene.watch(6);
      return scene.service.service.requests;
    }),
  );
  expect(requests[0]).toBe(requests[1]);
});
