import { describe, expect, it } from 'vitest';
import { postgresForTests, postgresIsThere } from '../support/postgres.ts';
import { startCourse } from './replica-course.ts';

describe.skipIf(!postgresIsThere())('a leader and a standby on PostgreSQL', () => {
  const postgres = postgresForTests();

  it('a standby takes over from a killed and from a stopped leader without duplicate or missing counts, alerts or cancels', async () => {
    const course = await startCourse(postgres(), {
      accounts: 20,
      replicas: 2,
      lease: 5,
      every: 1,
      quiet: 3000,
      traffic: 6000,
    });
    await course.step('the leader is killed', async () => course.kill(await course.leader()));
    await course.step('another one starts', () => course.scene.startReplica());
    await course.step('the leader is stopped', async () => course.leave(await course.leader()));
    await course.end();
    expect(course.scene.running()).toHaveLength(1);
  });
});
