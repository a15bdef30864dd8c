import type { Problem } from '../../http/api/parts.ts';
import type { NotificationCount } from '../../metrics/alerting.ts';
import type { AccountStatus } from '../../model/status.ts';
import type { Base } from '../parts.ts';
import type { AgentMoment } from './problems/agent.ts';
import { agentProblemsOf } from './problems.ts';

interface AgentProblemsDeps extends Pick<Base, 'clock' | 'reloads' | 'agentLog'> {
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
