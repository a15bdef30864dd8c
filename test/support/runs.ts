/**
 * Returns the number of runs of a randomized test: `all` if ALL_RUNS is set (`.ci/run all` sets it); otherwise `some`, by
 * default a third. Seeds are random, so runs on many machines add up.
 */
export const runs = (all: number, some = Math.ceil(all / 3)): number => (process.env.ALL_RUNS ? all : some);
