import type { NotificationCount } from '../../metrics/alerting.ts';
import { createProblemLog, type ProblemLog } from './problem-log.ts';
import { MINUTE } from './problems/check.ts';

/** What the agent remembers of itself, once a minute: since when its problems are there, and what became of notifications. */
export interface AgentLog extends Pick<ProblemLog, 'firstSeen'> {
  /** `notifications`: since the process began. `at`: milliseconds since the Unix epoch. */
  saw(problems: Parameters<ProblemLog['saw']>[0], notifications: readonly NotificationCount[], at: number): void;
  /** Notifications of the last 15 minutes, or since the process began. */
  lately(notifications: readonly NotificationCount[], at: number): readonly NotificationCount[];
}

const OVER = 15 * MINUTE;

const keyOf = ({ notifier, outcome }: NotificationCount) => JSON.stringify([notifier, outcome]);

export function createAgentLog(): AgentLog {
  const log = createProblemLog(0);
  const before: { readonly at: number; readonly values: ReadonlyMap<string, number> }[] = [];
  return {
    firstSeen: log.firstSeen,
    saw(problems, notifications, at) {
      log.saw(problems, at);
      before.push({ at, values: new Map(notifications.map(each => [keyOf(each), each.count])) });
      // One that is as old as the window, or older, is enough.
      while ((before[1]?.at ?? at) <= at - OVER) before.shift();
    },
    lately(notifications, at) {
      const first = before.findLast(point => point.at <= at - OVER)?.values;
      return notifications.map(each => ({ ...each, count: each.count - (first?.get(keyOf(each)) ?? 0) }));
    },
  };
}
