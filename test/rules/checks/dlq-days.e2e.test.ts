import { describe, expect, it } from 'vitest';
import { queueOf } from './check-scene.ts';
import { createRecordedScene, HOUR, type RecordedScene } from './recorded-scene.ts';

/** Size of the queue at a minute. */
type Size = (minute: number) => number;

/** Passes minutes and checks after every second one. Returns the minutes after which a kind was found. */
async function foundAt(scene: RecordedScene, kind: string, minutes: number, size: Size): Promise<number[]> {
  const found: number[] = [];
  let now = 0;
  await scene.minutes(
    minutes,
    minute => {
      now = minute;
      queueOf(scene.account).messages = Math.round(size(minute));
    },
    () => {
      if (scene.found(kind).length > 0) found.push(now);
    },
    2,
  );
  return found;
}

describe('growth of the queue over hours', () => {
  it.each<[string, Size]>([
    ['a bulk retry that fails again', m => (m < 480 ? 500 : m < 515 ? 0 : Math.min(500, 20 * (m - 515)))],
    ['bulk retries every hour and a half', m => (m % 90 < 30 ? 0 : 300)],
    ['a queue that is drained every three hours', m => (m % 180 < 5 ? 0 : 200)],
    ['a queue that grows and shrinks by half in a day', m => 200 + 60 * Math.sin(m / 230)],
  ])('a queue that fills again to an earlier size does not grow: %s', async (_what, size) => {
    const scene = await createRecordedScene();
    await foundAt(scene, 'dlq_growing', 8 * 60, m => size(m % 480));
    expect((await foundAt(scene, 'dlq_growing', 12 * 60, m => size(480 + m))).slice(0, 5)).toEqual([]);
  });

  it('slow growth over six hours is found, and its text states the window', async () => {
    const scene = await createRecordedScene();
    await foundAt(scene, 'dlq_growing', 8 * 60, () => 20);
    const found = await foundAt(scene, 'dlq_growing', 8 * 60, m => 20 + m / 12);
    expect(found[0]).toBeGreaterThan(4 * 60);
    expect(found[0]).toBeLessThan(7 * 60);
    expect(scene.found('dlq_growing')[0]).toMatch(/grew by (2\d|3\d|4\d) to 60 in 6 h/);
  });

  it('growth during an outage of the agent is found by comparison with the last known size', async () => {
    const scene = await createRecordedScene();
    await foundAt(scene, 'dlq_growing', 3 * 60, () => 100);
    await scene.restart(5 * HOUR);
    expect((await foundAt(scene, 'dlq_growing', 30, () => 400))[0]).toBeLessThan(20);
  });
});

describe('the first entry of the queue', () => {
  const KIND = 'dlq_first_entry';

  it('dlq_first_entry is found for an hour after the first entry in an empty queue', async () => {
    const scene = await createRecordedScene();
    await foundAt(scene, KIND, 3 * 60, () => 0);
    expect(scene.found(KIND)).toEqual([]);
    const found = await foundAt(scene, KIND, 3 * 60, m => (m < 30 ? 0 : 3));
    expect([found[0], found.at(-1)]).toEqual([30, 88]);
  });

  it('dlq_first_entry ends when the queue is empty again', async () => {
    const scene = await createRecordedScene();
    await foundAt(scene, KIND, 2 * 60, () => 0);
    const found = await foundAt(scene, KIND, 60, m => (m < 30 ? 1 : 0));
    expect(found.at(-1)).toBeLessThan(30);
    expect(found).not.toEqual([]);
  });

  it('dlq_first_entry is not found if entries are added to a queue that was not empty', async () => {
    const scene = await createRecordedScene();
    await foundAt(scene, KIND, 2 * 60, () => 1);
    expect(await foundAt(scene, KIND, 60, m => 1 + m)).toEqual([]);
  });

  it('dlq_first_entry is found if the entry was added while the agent was down, and is unknown without earlier sizes', async () => {
    const scene = await createRecordedScene();
    await foundAt(scene, KIND, 3 * 60, () => 0);
    await scene.restart(3 * HOUR);
    await foundAt(scene, KIND, 2, () => 2);
    expect(scene.found(KIND)).toEqual([
      expect.stringMatching(/^2 dead letters in a queue that was empty 3 h( \d+ min)? ago/),
    ]);
    const fresh = await createRecordedScene();
    await foundAt(fresh, KIND, 2, () => 2);
    expect([fresh.found(KIND), fresh.isUnknown(KIND)]).toEqual([[], true]);
  });
});
