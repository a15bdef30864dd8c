import type { NotificationCount } from '../metrics/alerting.ts';
import type { Problem } from './api/parts.ts';

type Named = Pick<Problem, 'kind' | 'subject'>;

/** Starts of problems for the store, by kind and subject (ms since the Unix epoch). */
export interface StoredProblems {
  readonly at: number;
  readonly since: Readonly<Record<string, number>>;
}

/**
 * Start of each problem, by checks once a minute. A problem that returns within five minutes, also after a restart, is the same.
 * After a longer time without a check, all problems start again.
 */
export type ProblemLog = ReturnType<typeof createProblemLog>;

const LONGEST_GAP = 5 * 60_000;

/** Subjects may be hostile; JSON keeps them apart. */
const keyOf = ({ kind, subject }: Named) => JSON.stringify([kind, subject]);

/** Clocks of replicas differ a little: a previous replica may have written a time in the future. */
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

const WINDOW = 15 * 60_000;

const seriesOf = ({ notifier, outcome }: NotificationCount) => JSON.stringify([notifier, outcome]);

/** The agent's own problems and notifications, recorded once a minute. */
export type AgentLog = ReturnType<typeof createAgentLog>;

export function createAgentLog() {
  const log = createProblemLog(0);
  const before: { readonly at: number; readonly values: ReadonlyMap<string, number> }[] = [];
  return {
    firstSeen: log.firstSeen,
    /** `notifications`: since the process started. `at`: milliseconds since the Unix epoch. */
    saw(problems: readonly Named[], notifications: readonly NotificationCount[], at: number): void {
      log.saw(problems, at);
      before.push({ at, values: new Map(notifications.map(each => [seriesOf(each), each.count])) });
      // Keeps one point that is not younger than the window.
      while ((before[1]?.at ?? at) <= at - WINDOW) before.shift();
    },
    /** Notifications of the last 15 minutes, or since the process started. */
    lately(notifications: readonly NotificationCount[], at: number): readonly NotificationCount[] {
      const first = before.findLast(point => point.at <= at - WINDOW)?.values;
      return notifications.map(each => ({ ...each, count: each.count - (first?.get(seriesOf(each)) ?? 0) }));
    },
  };
}
