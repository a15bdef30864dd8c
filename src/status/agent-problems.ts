import type { Clock } from '../kit/clock.ts';
import type { NotificationCount } from '../metrics/alerting.ts';
import type { AccountStatus } from '../model/status.ts';
import type { LastReload } from './agent.ts';
import type { AgentLog } from './agent-log.ts';
import type { Problem } from './api/parts.ts';
import type { AgentMoment } from './problems/agent.ts';
import { agentProblemsOf } from './problems.ts';

interface AgentProblemsDeps {
  readonly clock: Pick<Clock, 'now'>;
  readonly reloads: { readonly last: LastReload | undefined };
  readonly agentLog: AgentLog;
  readonly accounts: readonly { shownStatus(): AccountStatus }[];
  /** Where replicas share the store: since when it does not answer, milliseconds since the Unix epoch. */
  readonly databaseAway?: (() => number | undefined) | undefined;
  /** Why the receiver of pushed metrics does not accept them. */
  readonly pushTrouble: () => AgentMoment['pushTrouble'];
  /** Notifications since the process began. */
  readonly notifications: () => readonly NotificationCount[];
}

export function createAgentProblems({
  clock,
  reloads,
  agentLog,
  accounts,
  notifications,
  databaseAway,
  pushTrouble,
}: AgentProblemsDeps) {
  const now = (): readonly Problem[] =>
    agentProblemsOf({
      now: clock.now(),
      statuses: accounts.map(account => account.shownStatus()),
      notifications: agentLog.lately(notifications(), clock.now()),
      lastReload: reloads.last,
      databaseAway: databaseAway?.(),
      pushTrouble: pushTrouble(),
      firstSeen: agentLog.firstSeen,
    });
  return {
    now,
    /** To be called once a minute. Never rejects. */
    look: async () => agentLog.saw(now(), notifications(), clock.now()),
  };
}
