import { defineConfig } from 'vitest/config';

/** By folder and name, so that a new file lands where it belongs. */
const PROCESSES = ['test/{e2e,hostile,mixin,store}/**/*.test.ts', 'test/**/*.e2e.test.ts'];
const LONG = ['test/**/*.long.test.ts'];

/** A test says itself how long it may wait for what (see test/support/eventually.ts); this ends only what hangs. */
const MINUTE = 60_000;
const limits = { testTimeout: 10 * MINUTE, hookTimeout: 10 * MINUTE };

export default defineConfig({
  test: {
    pool: 'forks',
    // Most of them wait for other processes: more than there are cores.
    maxWorkers: 4,
    globalSetup: 'test/support/compile-cache.ts',
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['test/**/*.test.ts'],
          exclude: [...PROCESSES, ...LONG],
          setupFiles: 'test/support/no-processes.ts',
          testTimeout: 2 * MINUTE,
        },
      },
      { extends: true, test: { name: 'e2e', include: PROCESSES, exclude: LONG, ...limits } },
      { extends: true, test: { name: 'long', include: LONG, ...limits } },
    ],
  },
});
