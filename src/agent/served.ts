import { type AutoCancel, MAX_LINES } from '../auto-cancel/accounts.ts';
import { publicReplicaUrlOf } from '../config/replica-url.ts';
import { version } from '../kit/version.ts';
import { CONTENT_TYPES, createExposition } from '../metrics/exposition.ts';
import type { Change } from '../model/change.ts';
import { createAgentView } from '../status/agent.ts';
import { NOT_SHARED } from '../status/api/parts.ts';
import { createAutoCancelView } from '../status/auto-cancel.ts';
import { createHistoryView } from '../status/history.ts';
import { createLookups } from '../status/lookups.ts';
import type { KeptRows } from '../status/overview-rows.ts';
import type { Served } from '../status/served.ts';
import type { Shared, StateServed } from '../status/shared.ts';
import { createViews } from '../status/views.ts';
import type { AgentState } from './agent-state.ts';
import type { AgentBase } from './parts.ts';
import type { Supervisor } from './supervisor.ts';

type OwnServed = Omit<Served, 'reload' | 'reloadErrors'>;

async function createSharedViews(base: AgentBase): Promise<Shared | undefined> {
  const { holding, store } = base;
  if (!holding || !store.replicas) return undefined;
  const { createShared } = await import('../status/shared.ts');
  return createShared(base, holding, store.replicas);
}

/** Creates the views that the port serves. */
export async function createServing(supervisor: Supervisor, base: AgentBase) {
  const { process, holding, log, clock, peerKey } = base;
  const shared = await createSharedViews(base);
  const kept: KeptRows = new WeakMap();
  // A bug in one source must not break the scrape of all accounts.
  const onBug = (account: string | undefined, error: unknown) =>
    log.error({ account, stack: error instanceof Error ? error.stack : String(error) }, 'bug');
  const exposition = createExposition(
    [],
    ({ account }, error) => onBug(account, error),
    account => holding?.isCurrent(account) ?? true,
  );
  let last: { readonly state: AgentState; readonly views: ReturnType<typeof createStateViews> } | undefined;

  function current() {
    const state = supervisor.state();
    if (last?.state !== state) last = { state, views: createStateViews(state, { base, supervisor, shared, kept }) };
    return last.views;
  }

  const served: OwnServed = {
    version,
    clock,
    peerKey,
    get externalUrl() {
      return supervisor.loaded.config.server.externalUrl;
    },
    get accounts() {
      return current().served.accounts;
    },
    get replicas() {
      return current().served.replicas;
    },
    status: () => current().served.status(),
    explain: (...which) => current().served.explain(...which),
    journal: since => current().served.journal(since),
    alerts: () => current().served.alerts(),
    overview: query => current().served.overview(query),
    report: () => current().served.report(),
    account: name => current().served.account(name),
    history: (...which) => current().served.history(...which),
    autoCancel: account => current().served.autoCancel(account),
    agent: () => current().served.agent(),
    get lookups() {
      return current().served.lookups;
    },
    command: (...which) => current().served.command(...which),
    async exposition(scope, format, gzip) {
      if (typeof scope === 'string') await process.refresh();
      exposition.use(supervisor.state().shown);
      return { contentType: CONTENT_TYPES[format], body: await exposition.render({ scope, format, gzip }) };
    },
    watch() {
      let [watched, hasChanged] = [current(), current().served.watch()];
      return () => {
        if (watched === current()) return hasChanged();
        [watched, hasChanged] = [current(), current().served.watch()];
        return true;
      };
    },
  };
  return {
    served,
    checkAgent: () => current().agent.check(),
    /** Logs problems of the agent itself. Call it once a minute. Never rejects. */
    logProblems: (): Promise<void> => current().agent.logProblems(),
    /** Returns the status rows for other replicas; undefined if the store is not shared. */
    async statusRows(): Promise<ReadonlyMap<string, readonly Change[]> | undefined> {
      const { elsewhere, rows } = current();
      const { accounts, autoCancel } = supervisor.state();
      elsewhere?.use();
      const alerts = () => supervisor.alerting.alerts();
      return elsewhere?.changes({ accounts, rows, alerts, autoCancel, failed: onBug });
    },
  };
}

interface StateViewsDeps {
  readonly base: AgentBase;
  readonly supervisor: Supervisor;
  readonly shared: Shared | undefined;
  readonly kept: KeptRows;
}

function createStateViews(state: AgentState, { base, supervisor, shared, kept }: StateViewsDeps) {
  const { loaded, accounts, sources, autoCancel } = state;
  const { config } = loaded;
  const { clock, log } = base;
  const { alerting } = supervisor;
  const alerts = (account?: string) => alerting.alerts(account);
  const byName = new Map(accounts.map(account => [account.name, account]));
  const elsewhere = shared?.over(config.accounts, publicReplicaUrlOf(config.server, base.env), [...byName.keys()]);
  const agent = createAgentView({
    ...base,
    loaded,
    accounts,
    printConfig: async () => (await import('../config/redacted.ts')).redactedYaml(config),
    notifications: () => alerting.notifications(),
    databaseAway: base.holding?.unavailableSince,
  });
  const ownJournal: AutoCancel['journal'] = async (...which) => autoCancel?.journal(...which) ?? [];
  const journal = autoCancel && elsewhere ? elsewhere.journal(autoCancel.journal) : ownJournal;
  const views = createViews({
    clock,
    accounts,
    settings: config.accounts,
    autoCancel,
    sources,
    alerts,
    agentProblems: agent.problems,
    elsewhere,
    kept,
    externalUrl: config.server.externalUrl,
    log,
  });
  const own: StateServed = {
    ...views,
    history: createHistoryView(
      name => byName.get(name)?.history ?? elsewhere?.history(name),
      config.store.history,
      clock,
    ),
    autoCancel: createAutoCancelView({
      config,
      autoCancel,
      others: elsewhere?.others.autoCancel ?? (() => []),
      self: elsewhere?.self ?? NOT_SHARED,
      journal: autoCancel && elsewhere ? elsewhere.ifThere(journal) : journal,
      clock,
    }),
    agent: agent.view,
    lookups: createLookups({
      accountOf(name) {
        const open = state.running.find(each => each.name === name);
        const settings = config.accounts.find(each => each.name === name);
        return open && settings && { reader: open.account.at('browser'), patterns: settings.collect.routes };
      },
      isTraced: config.tracing.enabled && config.tracing.lifecycle.enabled,
      clock,
    }),
    externalUrl: config.server.externalUrl,
    accounts: config.accounts.map(({ name }) => name),
    status: () => accounts.map(account => account.status()),
    explain: async (id, account) => autoCancel?.explain(id, account) ?? [],
    command: (command, signal) =>
      autoCancel?.command(command, signal) ?? Promise.resolve({ ok: false, why: 'auto-cancel is off' }),
    journal: since => journal(since, MAX_LINES),
    alerts: () => alerting.alerts(),
  };
  return { served: elsewhere ? elsewhere.serve(own) : own, agent, rows: views.rows, elsewhere };
}
