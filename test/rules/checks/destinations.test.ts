import { expect, it } from 'vitest';
import { createDestinationTally, type DestinationTally } from '../../../src/collectors/events/tally.ts';
import { createRecordedScene, HOUR } from './recorded-scene.ts';

const KIND = 'destination_failing';

/** Creates an account with a healthy destination and `api`. */
async function setUp({ keep = 0 } = {}) {
  const scene = await createRecordedScene({ keep });
  const [healthy, api] = [createDestinationTally(), createDestinationTally()];
  const { events } = scene.account;
  events.destinations.set('healthy', healthy);
  events.destinations.set('api', api);
  events.labelled = { counters: true, histograms: false };
  const succeed = (tally: DestinationTally, count = 1) => {
    tally.finished.delivered += count;
    tally.events.delivered += count;
  };
  const fail = (tally: DestinationTally, attempts = 4) => {
    tally.finished.failed += 1;
    tally.events.error += attempts;
  };
  return {
    ...scene,
    restart: scene.restart,
    succeed: (count?: number) => succeed(api, count),
    fail: (attempts?: number) => fail(api, attempts),
    /** Passes minutes in which the healthy destination gets messages. */
    pass: (minutes: number, change: (minute: number) => void = () => undefined) =>
      scene.minutes(minutes, minute => {
        succeed(healthy, 10);
        if (minute % 10 === 0) fail(healthy);
        change(minute);
      }),
    found: () => scene.found(KIND),
  };
}

it('a destination with two messages an hour, all of which fail, is found after a day without a delivery', async () => {
  const scene = await setUp();
  await scene.pass(6 * 60, minute => minute % 30 === 0 && scene.succeed());
  const failing = (minute: number) => minute % 30 === 0 && scene.fail();
  await scene.pass(22 * 60, failing);
  expect(scene.found()).toEqual([]);
  await scene.restart();
  await scene.pass(4 * 60, failing);
  expect(scene.found()).toEqual([
    expect.stringMatching(/^(48|49|50) messages to api failed in 1 d, and none was delivered\.$/),
  ]);
  scene.succeed();
  expect(scene.found()).toEqual([]);
});

it('a new destination that fails from the start is found after a few messages', async () => {
  const scene = await setUp();
  await scene.pass(60);
  await scene.pass(5 * 60, minute => minute % 30 === 0 && scene.fail());
  expect(scene.found()).toEqual([
    expect.stringMatching(/^[5-9] messages to api failed in \d h( \d+ min)?, and none was delivered\.$/),
  ]);
});

it.each([
  ['most messages fail', (minute: number) => minute % 120 === 0],
  ['messages are delivered once a day', (minute: number) => minute % (20 * 60) === 0],
])('a destination to which messages are delivered is not failing: %s', async (_what, isDelivered) => {
  const scene = await setUp();
  for (let day = 0; day < 2; day += 1) {
    await scene.pass(24 * 60, minute => {
      if (minute % 30 === 0) scene.fail();
      if (isDelivered(minute)) scene.succeed();
    });
    expect(scene.found()).toEqual([]);
  }
});

it('a destination of which most attempts fail is found within minutes', async () => {
  const scene = await setUp();
  await scene.pass(60, () => scene.succeed(2));
  await scene.pass(4, () => scene.fail(4));
  expect(scene.found()).toEqual(['12 delivery attempts to api failed in 3 min, and 0 succeeded.']);
  // After it has recovered, successes prevail.
  await scene.pass(10, () => scene.succeed(2));
  expect(scene.found()).toEqual([]);
});

it('a few failed attempts among successful ones are not a problem', async () => {
  const scene = await setUp();
  await scene.pass(60, () => {
    scene.succeed(5);
    scene.fail(4);
  });
  expect(scene.found()).toEqual([]);
});

it('failed attempts that are counted all at once after an outage do not count as failures of the last minutes', async () => {
  const scene = await setUp();
  await scene.pass(60, () => scene.succeed(2));
  scene.setReadable(false);
  await scene.minutes(30);
  expect(scene.isUnknown(KIND)).toBe(true);
  scene.setReadable(true);
  scene.fail(100);
  await scene.pass(30, () => scene.succeed(1));
  expect(scene.found()).toEqual([]);
  await scene.restart(HOUR);
  scene.fail(100);
  await scene.pass(30, () => scene.succeed(1));
  expect(scene.found()).toEqual([]);
});

it('only failing destinations take memory', async () => {
  const scene = await setUp();
  await scene.pass(3 * 60, minute => minute % 2 === 0 && scene.fail());
  const known = (destination: string) =>
    scene.recorder.recent(`delivery_messages_finished_total{outcome="failed",destination="${destination}"}`, 24 * HOUR);
  expect(known('api').length).toBeGreaterThan(1);
  expect(known('healthy')).toEqual([]);
});
