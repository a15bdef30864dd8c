import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    testTimeout: 40_000,
    hookTimeout: 30_000,
    pool: 'forks',
    // Most of them wait for other processes: more than there are cores.
    maxWorkers: 3,
  },
});
