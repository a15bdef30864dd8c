import { describe, it } from 'vitest';
import { postgresForTests, postgresIsThere } from '../support/postgres.ts';
import { allOr } from '../support/runs.ts';
import { startCourse } from './replica-course.ts';

/** Duration of pauses and database outages, longer than any lease (ms). */
const LONG = 12_000;

/** Accounts take most of the test's time. */
const ACCOUNTS = allOr(200, 30);

describe.skipIf(!postgresIsThere())(`a leader, two standbys and ${ACCOUNTS} accounts`, () => {
  const postgres = postgresForTests();

  it('everything is counted, sent and cancelled exactly once during failures of processes, network and database', async () => {
    const course = await startCourse(postgres(), {
      accounts: ACCOUNTS,
      replicas: 3,
      lease: 8,
      every: 8,
      quiet: 16_000,
      traffic: 15_000,
    });
    const { scene, step } = course;
    await step('the leader is killed', async () => course.kill(await course.leader()));
    await step('another one starts', () => scene.startReplica());
    await step('the leader is paused for longer than its lease', async () => course.pause(await course.leader(), LONG));
    await step('all are cut off from the database', () => course.cut(scene.running(), LONG));
    await step('the leader is cut off from the database', async () => course.cut([await course.leader()], LONG));
    await step('PostgreSQL restarts', () => postgres().restart());
    await step('PostgreSQL crashes and recovers', () => postgres().restart('kill'));
    await course.end();
  });
});
