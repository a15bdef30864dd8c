import { describe, it } from 'vitest';
import { postgresForTests, postgresIsThere } from '../support/postgres.ts';
import { allOr } from '../support/runs.ts';
import { startCourse } from './replica-course.ts';

/** Duration of pauses and database outages, longer than any lease (ms). */
const LONG = 12_000;

/** Accounts take most of the test's time. */
const ACCOUNTS = allOr(200, 60);

describe.skipIf(!postgresIsThere())(`three replicas and ${ACCOUNTS} accounts`, () => {
  const postgres = postgresForTests();

  it('replicas count, notify and cancel everything exactly once during failures of replicas, network and database', async () => {
    const course = await startCourse(postgres(), {
      accounts: ACCOUNTS,
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
    await step('another one starts', () => scene.startReplica());
    await step('one is paused for longer than its lease', () => course.pause(replica('b'), LONG));
    await step('all are cut off from the database', () => course.cut(scene.running(), LONG));
    await step('one is cut off from the database', () => course.cut([replica('c')], LONG));
    await step('PostgreSQL restarts', () => postgres().restart());
    await step('PostgreSQL crashes and recovers', () => postgres().restart('kill'));
    await course.end();
  });
});
