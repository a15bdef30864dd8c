import type { NotificationCount } from '../metrics/alerting.ts';
import { createProblemLog, type ProblemLog } from './problem-log.ts';
import { MINUTE } from './problems/check.ts';

/** The agent's own problems and notifications, recorded once a minute. */
export type AgentLog = ReturnType<typeof createAgentLog>;

const OVER = 15 * MINUTE;

const keyOf = ({ notifier, outcome }: NotificationCount) => JSON.stringify([notifier, outcome]);

export function createAgentLog() {
  const log = createProblemLog(0);
  const before: { readonly at: number; readonly values: ReadonlyMap<string, number> }[] = [];
  return {
    firstSeen: log.firstSeen,
    /** `notifications`: since the process started. `at`: milliseconds since the Unix epoch. */
    saw(problems: Parameters<ProblemLog['saw']>[0], notifications: readonly NotificationCount[], at: number): void {
      log.saw(problems, at);
      before.push({ at, values: new Map(notifications.map(each => [keyOf(each), each.count])) });
      // One that is as old as the window, or older, is enough.
      while ((before[1]?.at ?? at) <= at - OVER) before.shift();
    },
    /** Notifications of the last 15 minutes, or since the process started. */
    lately(notifications: readonly NotificationCount[], at: number): readonly NotificationCount[] {
      const first = before.findLast(point => point.at <= at - OVER)?.values;
      return notifications.map(each => ({ ...each, count: each.count - (first?.get(keyOf(each)) ?? 0) }));
    },
  };
}
