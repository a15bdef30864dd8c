/**
 * Returns the number of runs of a property test: a third of `all`, or `all` if ALL_RUNS is set, as `.ci/run` does. Seeds are
 * random, so runs on many machines add up.
 */
export const runs = (all: number): number => (process.env.ALL_RUNS ? all : Math.ceil(all / 3));
