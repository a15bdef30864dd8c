import type { Sample } from '../../metrics/family.ts';
import { createProblemLog, type ProblemLog } from './problem-log.ts';
import { MINUTE } from './problems/check.ts';

/** What the agent remembers of itself, once a minute: since when its problems are there, and what became of notifications. */
export interface AgentLog extends Pick<ProblemLog, 'firstSeen'> {
  /** `notifications`: samples of `delivery_watch_notifications_total`. `at`: milliseconds since the Unix epoch. */
  saw(problems: Parameters<ProblemLog['saw']>[0], notifications: readonly Sample[], at: number): void;
  /** The same samples as rises of the last 15 minutes, or since the process began. */
  lately(notifications: readonly Sample[], at: number): readonly Sample[];
}

const OVER = 15 * MINUTE;

const keyOf = ({ labels }: Sample) => JSON.stringify(labels);

export function createAgentLog(): AgentLog {
  const log = createProblemLog(0);
  const before: { readonly at: number; readonly values: ReadonlyMap<string, number> }[] = [];
  return {
    firstSeen: log.firstSeen,
    saw(problems, notifications, at) {
      log.saw(problems, at);
      before.push({ at, values: new Map(notifications.map(sample => [keyOf(sample), sample.value])) });
      // One that is as old as the window, or older, is enough.
      while ((before[1]?.at ?? at) <= at - OVER) before.shift();
    },
    lately(notifications, at) {
      const first = before.findLast(point => point.at <= at - OVER)?.values;
      // They begin at 0 with the process.
      return notifications.map(sample => ({ ...sample, value: sample.value - (first?.get(keyOf(sample)) ?? 0) }));
    },
  };
}
