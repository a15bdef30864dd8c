import { describe, expect, it } from 'vitest';
import { postgresForTests, postgresIsThere } from '../support/postgres.ts';
import { startCourse } from './replica-course.ts';

describe.skipIf(!postgresIsThere())('replicas on PostgreSQL', () => {
  const postgres = postgresForTests();

  it('replicas take over from a killed and from a stopped replica without duplicate or missing counts, alerts or cancels', async () => {
    const course = await startCourse(postgres(), {
      accounts: 20,
      replicas: 2,
      lease: 5,
      every: 1,
      quiet: 3000,
      traffic: 6000,
    });
    const [first, second] = course.scene.replicas;
    if (!first || !second) throw new Error('expected two replicas');
    await course.step('one is killed', () => course.kill(first));
    await course.step('another one starts', () => course.scene.startReplica());
    await course.step('one is stopped', () => course.leave(second));
    await course.end();
    expect(course.scene.running()).toHaveLength(1);
  });
});
