import type { ProcessGroup, ReloadError } from '../http/served.ts';
import type { Clock } from '../kit/clock.ts';
import { MINUTE } from '../kit/duration.ts';
import type { NotificationCount } from '../metrics/alerting.ts';
import type { AccountStatus } from '../model/status.ts';
import { AGENT_CHECKS } from '../rules/checks/agent.ts';
import { runChecks } from '../rules/checks/run.ts';
import type { ProblemState } from '../rules/problem-states.ts';
import { problemsOf } from './problems.ts';

/** Result of the last reload. `at`: milliseconds since the Unix epoch. */
export interface LastReload {
  readonly at: number;
  /** One line for each changed section; empty if the reload was rejected. */
  readonly changed: readonly string[];
  /** Errors of a rejected reload; empty if it was accepted. */
  readonly faults: readonly ReloadError[];
}

interface AgentDeps {
  readonly clock: Pick<Clock, 'now'>;
  readonly reloads: { readonly last: LastReload | undefined };
  readonly notified: NotificationLog;
  readonly accounts: readonly { status(): AccountStatus }[];
  readonly notifications: () => readonly NotificationCount[];
  /** Returns the states of the agent's problems. */
  readonly problemStates: () => readonly ProblemState[];
  /** Undefined if the store belongs to this process alone. */
  readonly group: Pick<ProcessGroup, 'unavailableSince'> | undefined;
}

const WINDOW = 15 * MINUTE;

const seriesOf = ({ notifier, outcome }: NotificationCount) => JSON.stringify([notifier, outcome]);

/** Notification counts of the last 15 minutes, recorded once a minute. */
export type NotificationLog = ReturnType<typeof createNotificationLog>;

export function createNotificationLog() {
  const before: { readonly at: number; readonly values: ReadonlyMap<string, number> }[] = [];
  return {
    /** Records the current counts. `notifications`: counts since the process started. */
    saw(notifications: readonly NotificationCount[], at: number): void {
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

/** Creates the checks of the agent itself. */
export function createAgentChecks(deps: AgentDeps) {
  const { clock, reloads, notified, accounts, notifications } = deps;
  const check = () =>
    runChecks(AGENT_CHECKS, {
      now: clock.now(),
      statuses: accounts.map(account => account.status()),
      notifications: notified.lately(notifications(), clock.now()),
      lastReload: reloads.last,
      databaseAway: deps.group?.unavailableSince(),
    });
  return {
    check,
    problems: () => problemsOf(check(), null, { now: clock.now(), states: deps.problemStates() }),
    /** Must be called once a minute. Never rejects. */
    logNotifications: async () => notified.saw(notifications(), clock.now()),
  };
}
