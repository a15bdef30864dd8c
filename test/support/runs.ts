/**
 * Runs of a property test: a third of what is asked for, or all where ALL_RUNS is set, as `.ci/run` does. The seed is another
 * each time, so that runs on many machines add up.
 */
export const runs = (all: number): number => (process.env.ALL_RUNS ? all : Math.ceil(all / 3));
