/** Returns `all` if ALL_RUNS is set (`.ci/run all` sets it); otherwise `some`. */
export const allOr = <T>(all: T, some: T): T => (process.env.ALL_RUNS ? all : some);

/** Returns the number of runs of a randomized test. By default, `some` is a third. Seeds are random, so runs on many machines add up. */
export const runs = (all: number, some = Math.ceil(all / 3)): number => allOr(all, some);
