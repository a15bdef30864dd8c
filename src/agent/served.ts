import { type AutoCancel, MAX_LINES } from '../auto-cancel/accounts.ts';
import type { HttpServed } from '../http/served.ts';
import type { Log } from '../kit/log.ts';
import { version } from '../kit/version.ts';
import { CONTENT_TYPES, createExposition } from '../metrics/exposition.ts';
import { accountView, type Viewed } from '../status/account.ts';
import { createAgentChecks } from '../status/agent.ts';
import { createAutoCancelView } from '../status/auto-cancel.ts';
import { createHistoryView } from '../status/history.ts';
import { createLookups } from '../status/lookups.ts';
import { createOverviewRows, overview } from '../status/overview.ts';
import { reportOf } from '../status/report.ts';
import type { Served, Views } from '../status/served.ts';
import { NO_ACCOUNT } from '../store/store.ts';
import type { AgentBase } from './base.ts';
import type { AgentState, Supervisor } from './supervisor.ts';

const logBug = (log: Log, account: string | undefined, error: unknown) =>
  log.error({ account, stack: error instanceof Error ? error.stack : String(error) }, 'bug');

/** Creates the views that the port serves. */
export function createServing(supervisor: Supervisor, base: AgentBase) {
  const { process, leadership, log, clock, peerKey } = base;
  const exposition = createExposition(
    [],
    // A bug in one source must not break the scrape of all accounts.
    ({ account }, error) => logBug(log, account, error),
    () => leadership?.isCurrent() ?? true,
  );
  let last: { readonly state: AgentState; readonly views: ReturnType<typeof createStateViews> } | undefined;

  function current() {
    const state = supervisor.state();
    if (last?.state !== state) last = { state, views: createStateViews(state, base, supervisor) };
    return last.views;
  }

  const served: Omit<Served, 'reload' | 'reloadErrors'> = {
    version,
    clock,
    peerKey,
    group: leadership,
    get accounts() {
      return current().views.accounts;
    },
    views: () => current().views,
    command: (...which) => current().command(...which),
    async exposition(scope, format, gzip) {
      if (typeof scope === 'string') await process.refresh();
      exposition.use(supervisor.state().shown);
      return { contentType: CONTENT_TYPES[format], body: await exposition.render({ scope, format, gzip }) };
    },
  };
  return {
    served,
    checkAgent: () => current().agent.check(),
    /** Call it once a minute. Never rejects. */
    logNotifications: (): Promise<void> => current().agent.logNotifications(),
  };
}

function viewedOf({ loaded, accounts, autoCancel }: AgentState, { alerting }: Supervisor): ReadonlyMap<string, Viewed> {
  const configured = new Map(loaded.config.accounts.map(each => [each.name, each]));
  const acting = new Map(autoCancel?.accounts.map(({ account, numbers }) => [account, numbers]));
  return new Map(
    accounts.flatMap(account => {
      const { name } = account;
      const settings = configured.get(name);
      if (!settings) return [];
      const problemStates = () => alerting.problems(name);
      return [[name, { account, settings, autoCancel: acting.get(name), problemStates }] as const];
    }),
  );
}

function createStateViews(state: AgentState, base: AgentBase, supervisor: Supervisor) {
  const { loaded, accounts, autoCancel } = state;
  const { config } = loaded;
  const { clock, log } = base;
  const { alerting } = supervisor;
  const byName = new Map(accounts.map(account => [account.name, account]));
  const agent = createAgentChecks({
    ...base,
    accounts,
    notifications: () => alerting.sending.notifications(),
    problemStates: () => alerting.problems(NO_ACCOUNT),
    group: base.leadership,
  });
  const journal: AutoCancel['journal'] = async (...which) => autoCancel?.journal(...which) ?? [];
  /** While the database is unavailable, returns no lines, so that pages still work. */
  const shownJournal: AutoCancel['journal'] = (...which) =>
    journal(...which).catch((error: unknown) => {
      if (!base.leadership?.isUnavailable()) throw error;
      return [];
    });
  const viewed = viewedOf(state, supervisor);
  const rows = createOverviewRows([...viewed.values()], clock.now, (account, error) => logBug(log, account, error));
  const { externalUrl } = config.server;
  const views: Views = {
    async overview(query) {
      const data = { rows: await rows(), alerts: alerting.alerts(), agentProblems: agent.problems() };
      return overview({ ...data, version, now: clock.now() }, query);
    },
    async report() {
      return reportOf({
        version,
        externalUrl,
        rows: await rows(),
        statuses: accounts.map(account => account.status()),
        agentProblems: agent.problems(),
        now: clock.now(),
      });
    },
    account(name) {
      const one = viewed.get(name);
      return one && accountView(one, alerting.alerts(name), clock.now());
    },
    history: createHistoryView(name => byName.get(name)?.history, config.store.history, clock),
    autoCancel: createAutoCancelView({
      config,
      autoCancel,
      journal: shownJournal,
      clock,
    }),
    lookups: createLookups({
      accountOf(name) {
        const open = state.running.find(each => each.name === name);
        const settings = config.accounts.find(each => each.name === name);
        return open && settings && { reader: open.account.at('browser'), patterns: settings.collect.routes };
      },
      clock,
    }),
    externalUrl,
    accounts: config.accounts.map(({ name }) => name),
    status: () => accounts.map(account => account.status()),
    explain: async (id, account) => autoCancel?.explain(id, account) ?? [],
    journal: since => journal(since, MAX_LINES),
    alerts: () => alerting.alerts(),
  };
  const command: HttpServed['command'] = async (...which) =>
    autoCancel?.command(...which) ?? { ok: false, why: 'auto-cancel is off' };
  return { views, command, agent };
}
