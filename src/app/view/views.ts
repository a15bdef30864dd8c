import type { Problem } from '../../http/api/parts.ts';
import type { ShownAlert, Views } from '../../http/served.ts';
import type { Clock } from '../../kit/clock.ts';
import type { Log } from '../../kit/log.ts';
import type { Source } from '../../metrics/family.ts';
import type { AccountHistory } from '../../model/history.ts';
import type { Account } from '../account.ts';
import type { AccountSettings } from '../account-client.ts';
import { accountView, type Viewed } from './account.ts';
import { overview } from './overview.ts';
import { createRows, type KeptRows } from './overview-rows.ts';
import type { ProblemLog } from './problem-log.ts';

export interface ViewsDeps {
  readonly version: string;
  readonly clock: Pick<Clock, 'now'>;
  readonly accounts: readonly Account[];
  /** Of these accounts. */
  readonly settings: readonly AccountSettings[];
  /** Everything in the exposition. */
  readonly sources: readonly Source[];
  readonly alerts: () => readonly ShownAlert[];
  readonly history: (account: string) => Pick<AccountHistory, 'recent'>;
  readonly problemLog: (account: string) => Pick<ProblemLog, 'firstSeen'>;
  readonly agentProblems: () => readonly Problem[];
  /** What is known of accounts that are also in the generation before. */
  readonly kept: KeptRows;
  readonly log: Pick<Log, 'error'>;
}

/** The accounts with all that is known of each. */
function viewedOf({ accounts, settings, sources, history, problemLog }: ViewsDeps): ReadonlyMap<string, Viewed> {
  const byAccount = Map.groupBy(sources, ({ account }) => account);
  const configured = new Map(settings.map(each => [each.name, each]));
  return new Map(
    accounts.flatMap(account => {
      const { name } = account;
      const settings = configured.get(name);
      if (!settings) return [];
      const { recent } = history(name);
      const { firstSeen } = problemLog(name);
      return [[name, { account, settings, sources: byAccount.get(name) ?? [], recent, firstSeen }] as const];
    }),
  );
}

/** What the page and the API show of a generation. */
export function createViews(deps: ViewsDeps, others: Pick<Views, 'history' | 'autoCancel' | 'agent'>): Views {
  const { version, clock, alerts, agentProblems, kept, log } = deps;
  const viewed = viewedOf(deps);
  const rows = createRows([...viewed.values()], kept, clock.now, (account, error) =>
    log.error({ account, stack: error instanceof Error ? error.stack : String(error) }, 'bug'),
  );
  return {
    ...others,
    async overview(query) {
      const all = await rows();
      return overview(
        { rows: all, alerts: alerts(), agentProblems: agentProblems(), version, now: clock.now() },
        query,
      );
    },
    account(name) {
      const one = viewed.get(name);
      const own = () => alerts().filter(({ labels }) => labels.account === name);
      return one && accountView(one, own(), clock.now());
    },
  };
}
