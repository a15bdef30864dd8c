import { describe, expect, it } from 'vitest';
import { type EventsServices, events } from '../../../src/collectors/events/events.ts';
import { schedulesOptions } from '../../../src/collectors/events/schedule-options.ts';
import { createRoutes } from '../../../src/collectors/routes.ts';
import { samplesBy } from '../../support/samples.ts';
import { createAgent, createLog, HOUR, MINUTE, SECOND } from './fake-log.ts';

const HALF_HOURLY = {
  name: 'reports',
  match: { scheduleId: 'scd_1' },
  cron: '*/30 * * * *',
  grace: '5m',
  endsWithin: '10m',
};

/** Creates an agent with these schedules that has read the log once, at 12:00:40. */
async function createScene(...chosen: object[]) {
  const service = createLog();
  const { clock } = service;
  clock.now = Date.parse('2026-06-01T12:00:40Z');
  const agent = createAgent(service);
  const routes = createRoutes(['/users/:id', '/:other']);
  const services = (schedules: object[]): EventsServices => ({ schedules: schedulesOptions.parse(schedules), routes });
  agent.reconfigure({}, services(chosen.length === 0 ? [HALF_HOURLY] : chosen));
  await agent.round('tail');
  const at = (time: string) => Date.parse(`2026-06-01T${time}Z`);
  return {
    service,
    agent,
    at,
    reconfigure: (...schedules: object[]) => agent.reconfigure({}, services(schedules)),
    /** Adds a message of the schedule. `course`: its events and their times. */
    add(id: string, course: Readonly<Record<string, string>>, of: object = { schedule: 'scd_1' }, late = 0) {
      for (const [state, time] of Object.entries(course)) service.add(id, [state], at(time), { ...of, late });
    },
    async readUntil(time: string, every = 15 * SECOND) {
      while (clock.now < at(time)) await agent.run(1, every);
    },
    counts(name = 'reports') {
      const { missed, late } = agent.shown().schedules.get(name) ?? { missed: Number.NaN, late: Number.NaN };
      return [missed, late];
    },
  };
}

type Scene = Awaited<ReturnType<typeof createScene>>;

const DELIVERED = { created: '12:30:02', active: '12:30:03', delivered: '12:31:00' };

describe('expected starts', () => {
  it('an expected start is fulfilled by a message created within grace', async () => {
    const scene = await createScene();
    scene.add('m1', DELIVERED);
    scene.add('m2', { created: '13:05:00', delivered: '13:05:01' });
    await scene.readUntil('13:20:00');
    expect(scene.counts()).toEqual([0, 0]);
    expect(scene.agent.shown().schedules.get('reports')).toEqual({
      missed: 0,
      late: 0,
      lastStarted: scene.at('13:05:00'),
      lastDelivered: scene.at('13:05:01'),
      judged: { at: scene.at('13:00:00'), as: 'ok' },
      next: scene.at('13:30:00'),
    });
  });

  it('an expected start is fulfilled by a message created up to two seconds before it', async () => {
    const scene = await createScene();
    scene.add('m1', { created: '12:29:58', delivered: '12:29:59' });
    scene.add('m2', { created: '12:59:59', delivered: '13:00:01' });
    scene.add('m3', { created: '13:29:59.980', delivered: '13:30:00' });
    await scene.readUntil('13:50:00');
    expect(scene.counts()).toEqual([0, 0]);
  });

  it('an expected start counts as missed only once, as soon as the log has been read past its grace', async () => {
    const scene = await createScene();
    scene.add('early', { created: '12:29:57', delivered: '12:30:00' });
    scene.add('late', { created: '12:35:01', delivered: '12:35:02' });
    scene.add('other', { created: '12:31:00', delivered: '12:31:01' }, { schedule: 'scd_2' });
    scene.add('none', { created: '12:31:00', delivered: '12:31:01' }, {});
    scene.add('after', { created: '12:36:05' }, {});
    await scene.readUntil('12:35:55');
    expect(scene.counts()).toEqual([0, 0]);
    await scene.readUntil('12:36:30');
    expect(scene.counts()).toEqual([1, 0]);
    await scene.readUntil('12:59:00');
    expect(scene.counts()).toEqual([1, 0]);
    expect(scene.agent.shown().schedules.get('reports')?.judged).toEqual({ at: scene.at('12:30:00'), as: 'missed' });
  });

  it('an expected start counts as missed in a log without any events', async () => {
    const scene = await createScene();
    await scene.readUntil('13:40:00');
    expect(scene.counts()).toEqual([3, 0]);
  });

  it('an expected start is fulfilled by any of several messages', async () => {
    const scene = await createScene();
    for (const number of [1, 2, 3]) scene.add(`failing-${number}`, { created: '12:30:01', failed: '12:30:30' });
    scene.add('good', { created: '12:34:00', delivered: '12:40:00' });
    await scene.readUntil('13:00:00');
    expect(scene.counts()).toEqual([0, 0]);
    expect(scene.agent.shown().schedules.get('reports')?.lastFailed).toBe(scene.at('12:30:30'));
  });

  it('an expected start counts as late once if its message is not delivered in time', async () => {
    const scene = await createScene();
    scene.add('m1', { created: '12:30:01', active: '12:30:02', error: '12:30:03', delivered: '12:40:02' });
    scene.add('m2', { created: '13:00:01', active: '13:00:02', error: '13:00:03', delivered: '13:10:01' });
    scene.add('m3', { created: '13:30:01', failed: '13:30:02' });
    scene.add('m4', { created: '14:00:01', cancelled: '14:00:02' });
    await scene.readUntil('12:40:30');
    expect(scene.counts()).toEqual([0, 0]);
    await scene.readUntil('14:25:00');
    expect(scene.counts()).toEqual([0, 3]);
    expect(scene.agent.shown().schedules.get('reports')?.judged).toEqual({ at: scene.at('14:00:00'), as: 'late' });
  });

  it('an expected start is matched by the creation of a message, but not by a retry or end', async () => {
    const scene = await createScene();
    scene.add('m1', { created: '12:10:00', active: '12:31:00', error: '12:31:01', delivered: '12:32:00' });
    await scene.readUntil('12:50:00');
    expect(scene.counts()).toEqual([1, 0]);
  });

  it('an expected start is fulfilled by delayed and out-of-order events', async () => {
    const scene = await createScene();
    scene.add('m1', { created: '12:30:02' }, { schedule: 'scd_1' }, 4 * MINUTE);
    scene.add('m1', { delivered: '12:30:05' });
    await scene.readUntil('12:50:00');
    expect(scene.counts()).toEqual([0, 0]);
    expect(scene.agent.shown().log.late).toBe(1);
  });

  it('an expected start is fulfilled by an event that only the sweep finds', async () => {
    const scene = await createScene({ ...HALF_HOURLY, grace: '29m', endsWithin: '1h' });
    scene.add('m1', { created: '12:30:02' }, { schedule: 'scd_1' }, 4 * MINUTE);
    scene.add('m1', { delivered: '12:30:05' });
    scene.agent.reconfigure(
      { overlap: '10s', lateSweep: '10m' },
      { schedules: schedulesOptions.parse([{ ...HALF_HOURLY, grace: '29m', endsWithin: '1h' }]) },
    );
    for (let minute = 31; minute < 59; minute += 1) {
      scene.service.add(`other-${minute}`, ['created', 'delivered'], scene.at(`12:${minute}:00`));
      await scene.readUntil(`12:${minute}:30`);
      await scene.agent.round('sweep');
    }
    await scene.readUntil('13:10:00');
    expect(scene.counts()).toEqual([0, 0]);
  });
});

it.each([
  ['scheduleId', { schedule: 'x' }],
  ['label', { labels: ['first', 'x'] }],
  ['queue', { queue: 'x' }],
  ['topic', { topic: 'x' }],
  ['route', { url: 'https://a.example/users/7' }, '/users/:id'],
])('matches messages to schedules by their %s', async (key, fields, value = 'x') => {
  const scene = await createScene({ ...HALF_HOURLY, match: { [key]: value } }, { ...HALF_HOURLY, name: 'other' });
  scene.add('m1', DELIVERED, fields);
  await scene.readUntil('12:50:00');
  expect([scene.counts(), scene.counts('other')]).toEqual([
    [0, 0],
    [1, 0],
  ]);
});

it('a message counts for every schedule whose match keys all fit the message', async () => {
  const scene = await createScene(
    { ...HALF_HOURLY, match: { queue: 'q', label: 'l' } },
    { ...HALF_HOURLY, name: 'other', match: { queue: 'q' } },
  );
  scene.add('m1', DELIVERED, { queue: 'q', labels: ['k', 'll'] });
  scene.add('m2', { created: '13:00:00', delivered: '13:00:10' }, { queue: 'q', labels: ['k', 'l'] });
  await scene.readUntil('13:20:00');
  expect([scene.counts(), scene.counts('other')]).toEqual([
    [1, 0],
    [0, 0],
  ]);
});

describe('expected starts in unread parts of the log', () => {
  const away = (scene: Scene) => {
    scene.service.service.isReadable = () => true;
    scene.service.service.failsAt = scene.service.service.requests + 1;
  };

  it('an expected start has no outcome during an outage, and is evaluated from the log afterwards', async () => {
    const scene = await createScene();
    scene.add('m0', { created: '12:01:00', delivered: '12:01:01' });
    await scene.readUntil('12:20:00');
    scene.add('m1', DELIVERED);
    scene.add('m3', { created: '13:30:01', delivered: '13:30:02' });
    scene.service.clock.now = scene.at('13:50:00');
    away(scene);
    await expect(scene.agent.round('tail')).rejects.toThrow('away');
    expect(scene.counts()).toEqual([0, 0]);
    await scene.readUntil('13:51:00');
    // According to the log, only the start at 13:00 was missed.
    expect(scene.counts()).toEqual([1, 0]);
  });

  it('an expected start is ignored if the log no longer covers its time', async () => {
    const scene = await createScene();
    scene.add('m0', { created: '12:01:00', delivered: '12:01:01' });
    await scene.readUntil('12:20:00');
    scene.service.service.keeps = 2 * HOUR;
    for (const time of ['16:00:01', '16:30:01', '17:30:01']) scene.add(time, { created: time, delivered: time });
    scene.service.clock.now = scene.at('17:50:00');
    await scene.readUntil('17:51:00');
    // The log begins at 16:00: the start at 17:00 was missed, and those from 12:30 to 15:30 are unknown.
    expect(scene.agent.shown().log.gaps).toBe(1);
    expect(scene.counts()).toEqual([1, 0]);
  });

  it('an expected start is ignored after a long pause if the log is empty', async () => {
    const scene = await createScene();
    scene.service.clock.now = scene.at('17:50:00');
    await scene.readUntil('17:58:00');
    expect(scene.counts()).toEqual([0, 0]);
    await scene.readUntil('18:10:30');
    expect(scene.counts()).toEqual([1, 0]);
  });

  it('an expected start is ignored if rows are unreadable', async () => {
    const scene = await createScene();
    scene.service.service.isReadable = ({ messageId }) => messageId !== 'bad';
    scene.add('bad', { created: '12:30:05', delivered: '12:30:20' });
    scene.add('m2', { created: '13:00:05' });
    scene.service.add('bad', ['delivered'], scene.at('13:00:20'));
    await scene.readUntil('13:20:00');
    expect(scene.counts()).toEqual([0, 0]);
    await scene.readUntil('13:40:30');
    expect(scene.counts()).toEqual([1, 0]);
  });
});

describe('restarts', () => {
  it('counts each expected start exactly once, even if the agent restarts after every read', async () => {
    const scene = await createScene();
    scene.add('m1', DELIVERED);
    scene.add('m2', { created: '13:00:01' });
    scene.add('m4', { created: '14:00:01', delivered: '14:00:02' });
    while (scene.service.clock.now < scene.at('14:10:00')) {
      await scene.agent.run(1);
      scene.agent.kill();
    }
    expect(scene.counts()).toEqual([1, 1]);
    expect(scene.agent.shown().schedules.get('reports')?.lastDelivered).toBe(scene.at('14:00:02'));
  });

  it('a restart drops removed schedules, and resets a schedule if its cron expression changed but not if its grace changed', async () => {
    const scene = await createScene(HALF_HOURLY, { ...HALF_HOURLY, name: 'same' });
    await scene.readUntil('12:40:00');
    expect([scene.counts(), scene.counts('same')]).toEqual([
      [1, 0],
      [1, 0],
    ]);
    expect(scene.agent.rowsOf('schedule')).toEqual(['schedule/reports', 'schedule/same']);
    scene.reconfigure({ ...HALF_HOURLY, name: 'renamed' }, { ...HALF_HOURLY, name: 'same', grace: '6m' });
    expect(scene.counts('same')).toEqual([1, 0]);
    expect(scene.counts('renamed')).toEqual([0, 0]);
    await scene.readUntil('12:50:00');
    expect(scene.agent.rowsOf('schedule')).toEqual(['schedule/same', 'schedule/renamed']);
    scene.reconfigure({ ...HALF_HOURLY, name: 'same', cron: '*/15 * * * *' });
    // Starts that were due before the change are not expected.
    scene.service.clock.now = scene.at('13:05:00');
    await scene.readUntil('13:14:00');
    expect(scene.counts('same')).toEqual([0, 0]);
    await scene.readUntil('13:25:30');
    expect(scene.counts('same')).toEqual([1, 0]);
  });
});

it('shows counters of all schedules, but no times of starts and ends, before the first event', async () => {
  const scene = await createScene();
  const { agent } = scene;
  const labels = { schedule: 'reports' };
  expect(samplesBy(events, agent.shown())).toMatchObject({
    scheduleStarted: [],
    scheduleDelivered: [],
    scheduleFailed: [],
    scheduleNext: [{ labels, value: scene.at('12:30:00') / 1000 }],
    scheduleMissed: [{ labels, value: 0 }],
    scheduleLate: [{ labels, value: 0 }],
  });
});

it('evaluates expected starts by the service’s clock if the local clock is ahead', async () => {
  const scene = await createScene();
  scene.agent.skew = 20 * MINUTE;
  scene.add('m0', { created: '12:05:00', delivered: '12:05:01' });
  await scene.readUntil('12:29:50');
  expect(scene.counts()).toEqual([0, 0]);
  scene.add('m1', { created: '12:34:00', delivered: '12:34:01' });
  await scene.readUntil('12:50:00');
  expect(scene.counts()).toEqual([0, 0]);
});

it('counts no fulfilled start as missed or late after an outage with more expected starts than one step can add', async () => {
  const scene = await createScene({ ...HALF_HOURLY, cron: '* * * * *', grace: '30s', endsWithin: '1m' });
  const { service, agent } = scene;
  const start = service.clock.now;
  for (let hour = 0; hour < 72; hour += 1) service.add(`other-${hour}`, ['created', 'delivered'], start + hour * HOUR);
  const end = start + 72 * HOUR;
  for (let minute = 0; minute < 30; minute += 1) {
    const time = end + 20 * SECOND + minute * MINUTE;
    service.add(`m${minute}`, ['created', 'delivered'], time, { schedule: 'scd_1' });
  }
  service.clock.now = end + 10 * MINUTE;
  await agent.run(1);
  const [missed = Number.NaN] = scene.counts();
  await agent.run(60);
  expect(scene.counts()).toEqual([missed, 0]);
  expect(missed).toBeGreaterThanOrEqual(500);
  // At most one missed start per minute of the 72 hours without messages.
  expect(missed).toBeLessThanOrEqual(72 * 60);
});

it('stores one row of bounded size per schedule after a month without a read', async () => {
  const everyMinute = Array.from({ length: 200 }, (_, index) => ({
    name: `s${index}`,
    match: { scheduleId: `scd_${index}` },
    cron: '* * * * *',
    grace: '30s',
    endsWithin: '1m',
  }));
  const scene = await createScene(...everyMinute);
  scene.service.clock.now += 30 * 24 * HOUR;
  await scene.agent.round('tail');
  expect(scene.agent.rowsOf('schedule')).toHaveLength(200);
  const row = scene.agent.rows.get('schedule/s199') ?? '';
  expect(row.length).toBeLessThan(500);
});

describe('starts of any schedule', () => {
  const URL_A = { schedule: 'scd_9', url: 'https://a.example.com/' };
  const URL_B = { schedule: 'scd_9', url: 'https://b.example.com/' };

  it('a message created more than 1 s and less than 30 s after another one for the same URL is a repeated start', async () => {
    const scene = await createScene();
    const doubles = () => scene.agent.shown().doubleStarts.get('scd_9');
    scene.add('a1', { created: '12:31:00.000', delivered: '12:31:00.900' }, URL_A);
    scene.add('a2', { created: '12:31:01.000' }, URL_A);
    scene.add('b1', { created: '12:31:00.040', active: '12:31:02', error: '12:31:03' }, URL_B);
    scene.add('a3', { created: '12:31:31.000' }, URL_A);
    scene.add('a4', { created: '12:32:01.000' }, URL_A);
    await scene.readUntil('12:35:00');
    expect(doubles()).toBeUndefined();
    scene.add('a5', { created: '12:36:00.000' }, URL_A);
    scene.add('a6', { created: '12:36:01.500' }, URL_A);
    await scene.readUntil('12:39:00');
    expect(doubles()).toEqual({ count: 1, at: scene.at('12:36:01.500') });
    expect(scene.agent.shown().doubleStarts.size).toBe(1);
  });
});
