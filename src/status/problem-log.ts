import type { Problem } from './api/parts.ts';

type Named = Pick<Problem, 'kind' | 'subject'>;

/** Since when problems are there, in a form that can be stored: times in milliseconds since the Unix epoch, by kind and subject. */
export interface StoredProblems {
  readonly at: number;
  readonly since: Readonly<Record<string, number>>;
}

/**
 * Since when an account's problems are there, as far as the agents that ran have seen. It is told once a minute what is wrong. A
 * problem that is gone for up to five minutes and comes back is the same; so is one from before a restart that took no longer. After
 * a longer time in which no agent looked, nothing is known of what was before: all problems are then there since at least now.
 */
export type ProblemLog = ReturnType<typeof createProblemLog>;

const LONGEST_GAP = 5 * 60_000;

/** Subjects may be hostile; JSON keeps them apart. */
const keyOf = ({ kind, subject }: Named) => JSON.stringify([kind, subject]);

/** The clocks of two replicas differ a little, so what is from a time to come may be from the one before. */
const isOver = (last: number, now: number) => Math.abs(now - last) > LONGEST_GAP;

/** `stored`: by an earlier process; `now`: milliseconds since the Unix epoch. */
export function createProblemLog(now: number, stored?: StoredProblems) {
  const before = stored && !isOver(stored.at, now) ? stored : { at: undefined, since: {} };
  let lookedAt = before.at;
  const seen = new Map(Object.entries(before.since).map(([key, since]) => [key, { since, last: before.at ?? since }]));
  return {
    /** Milliseconds since the Unix epoch; undefined for a new problem. */
    firstSeen: (problem: Named): number | undefined => seen.get(keyOf(problem))?.since,
    /** Records all problems at `at`, milliseconds since the Unix epoch. */
    saw(problems: readonly Named[], at: number): void {
      for (const [key, { last }] of seen) if (isOver(last, at)) seen.delete(key);
      for (const problem of problems) {
        const key = keyOf(problem);
        seen.set(key, { since: Math.min(seen.get(key)?.since ?? at, at), last: at });
      }
      lookedAt = at;
    },
    /** Undefined before the first record. */
    stored(): StoredProblems | undefined {
      if (lookedAt === undefined) return undefined;
      return { at: lookedAt, since: Object.fromEntries([...seen].map(([key, { since }]) => [key, since])) };
    },
  };
}
