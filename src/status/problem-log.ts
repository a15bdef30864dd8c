import type { NotificationCount } from '../metrics/alerting.ts';
import type { Problem } from './api/parts.ts';

type Named = Pick<Problem, 'kind' | 'subject'>;

/** Start times of problems (ms since the Unix epoch) by `keyOf`, as stored. */
export interface StoredProblems {
  readonly at: number;
  readonly since: Readonly<Record<string, number>>;
}

/**
 * Records when each problem started, based on checks once a minute. A problem that returns within five minutes, even after a
 * restart, keeps its start. After a longer time without checks, every problem counts as new.
 */
export type ProblemLog = ReturnType<typeof createProblemLog>;

const MAX_GAP = 5 * 60_000;

/** Subjects come from the service. JSON prevents different subjects from having the same key. */
const keyOf = ({ kind, subject }: Named) => JSON.stringify([kind, subject]);

/** `last` may be in the future, because the clocks of two processes may differ. */
const isOver = (last: number, now: number) => Math.abs(now - last) > MAX_GAP;

/** Creates a problem log. `stored`: problems recorded by an earlier process; `now`: milliseconds since the Unix epoch. */
export function createProblemLog(now: number, stored?: StoredProblems) {
  const before = stored && !isOver(stored.at, now) ? stored : { at: undefined, since: {} };
  let lookedAt = before.at;
  const seen = new Map(Object.entries(before.since).map(([key, since]) => [key, { since, last: before.at ?? since }]));
  return {
    /** Returns the start of a problem (ms since the Unix epoch); undefined for a new problem. */
    firstSeen: (problem: Named): number | undefined => seen.get(keyOf(problem))?.since,
    saw(problems: readonly Named[], at: number): void {
      for (const [key, { last }] of seen) if (isOver(last, at)) seen.delete(key);
      for (const problem of problems) {
        const key = keyOf(problem);
        seen.set(key, { since: Math.min(seen.get(key)?.since ?? at, at), last: at });
      }
      lookedAt = at;
    },
    /** Returns the problems to store; undefined before the first call of `saw`. */
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
    /** Records current problems and notification counts. `notifications`: counts since the process started. */
    saw(problems: readonly Named[], notifications: readonly NotificationCount[], at: number): void {
      log.saw(problems, at);
      before.push({ at, values: new Map(notifications.map(each => [seriesOf(each), each.count])) });
      // Keep one point that is at least as old as the window.
      while ((before[1]?.at ?? at) <= at - WINDOW) before.shift();
    },
    /** Returns notification counts of the last 15 minutes; if the process started later, since its start. */
    lately(notifications: readonly NotificationCount[], at: number): readonly NotificationCount[] {
      const first = before.findLast(point => point.at <= at - WINDOW)?.values;
      return notifications.map(each => ({ ...each, count: each.count - (first?.get(seriesOf(each)) ?? 0) }));
    },
  };
}
