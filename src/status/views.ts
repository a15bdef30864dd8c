import type { AutoCancel } from '../auto-cancel/accounts.ts';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import { version } from '../kit/version.ts';
import type { ShownAlert } from '../rules/alerting.ts';
import type { ProblemState } from '../rules/problem-states.ts';
import { accountView, type ShownSource, type StatusSettings, type Viewed } from './account.ts';
import type { Problem } from './api/parts.ts';
import { createOverviewRows, overview } from './overview.ts';
import { reportOf } from './report.ts';
import type { Views } from './served.ts';

export interface ViewsDeps {
  readonly clock: Pick<Clock, 'now'>;
  readonly accounts: readonly ShownSource[];
  readonly settings: readonly StatusSettings[];
  readonly autoCancel: Pick<AutoCancel, 'accounts'> | undefined;
  /** Returns the alerts of one account; without a name, all alerts, including those about the agent. */
  readonly alerts: (account?: string) => readonly ShownAlert[];
  /** Returns the states of an account's problems. */
  readonly problemStates: (account: string) => readonly ProblemState[];
  readonly agentProblems: () => readonly Problem[];
  readonly externalUrl: string | null;
  readonly log: Pick<Log, 'error'>;
}

function viewedOf(deps: ViewsDeps): ReadonlyMap<string, Viewed> {
  const configured = new Map(deps.settings.map(each => [each.name, each]));
  const acting = new Map(deps.autoCancel?.accounts.map(({ account, numbers }) => [account, numbers]));
  return new Map(
    deps.accounts.flatMap(account => {
      const { name } = account;
      const settings = configured.get(name);
      if (!settings) return [];
      const problemStates = () => deps.problemStates(name);
      return [[name, { account, settings, autoCancel: acting.get(name), problemStates }] as const];
    }),
  );
}

export function createViews(deps: ViewsDeps): Pick<Views, 'overview' | 'report' | 'account'> {
  const { clock, alerts, agentProblems, log } = deps;
  const viewed = viewedOf(deps);
  const rows = createOverviewRows([...viewed.values()], clock.now, (account, error) =>
    log.error({ account, stack: error instanceof Error ? error.stack : String(error) }, 'bug'),
  );
  return {
    async overview(query) {
      const data = { rows: await rows(), alerts: alerts(), agentProblems: agentProblems(), version, now: clock.now() };
      return overview(data, query);
    },
    async report() {
      return reportOf({
        version,
        externalUrl: deps.externalUrl,
        rows: await rows(),
        statuses: deps.accounts.map(account => account.status()),
        agentProblems: agentProblems(),
        now: clock.now(),
      });
    },
    account(name) {
      const one = viewed.get(name);
      return one && accountView(one, alerts(name), clock.now());
    },
  };
}
