import { describe, it } from 'vitest';
import { postgresForTests, postgresIsThere } from '../support/postgres.ts';
import { startCourse } from './replica-course.ts';

/** Longer than any lease, milliseconds. */
const LONG = 12_000;

describe.skipIf(!postgresIsThere())('three replicas and two hundred accounts', () => {
  const postgres = postgresForTests();

  it('count, tell and cancel everything once, whatever becomes of replicas, their network and their database', async () => {
    const course = await startCourse(postgres(), {
      accounts: 200,
      replicas: 3,
      lease: 8,
      every: 8,
      quiet: 16_000,
      traffic: 15_000,
    });
    const { scene, step } = course;
    const replica = (name: string) => {
      const found = scene.replicas.find(each => each.name === name);
      if (!found) throw new Error(`there is no replica ${name}`);
      return found;
    };
    await step('one is killed', () => course.kill(replica('a')));
    await step('another comes in its place', () => scene.startReplica());
    await step('one is stopped for longer than its lease, and goes on', () => course.pause(replica('b'), LONG));
    await step('all are cut off from the database', () => course.cut(scene.running(), LONG));
    await step('one is cut off from the database', () => course.cut([replica('c')], LONG));
    await step('PostgreSQL restarts', () => postgres().restart());
    await step('PostgreSQL crashes, and recovers', () => postgres().restart('kill'));
    await course.end();
  });
});
