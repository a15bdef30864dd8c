import type { LoadedConfig } from '../config/load.ts';
import { SAMPLE_EVERY } from '../history/recorder.ts';
import { NOT_SHARED } from '../http/api/parts.ts';
import type { Views } from '../http/served.ts';
import type { Served } from '../http/server.ts';
import { createTurns } from '../kit/turns.ts';
import { CONTENT_TYPES, createExposition, type Exposition } from '../metrics/exposition.ts';
import type { Source } from '../metrics/family.ts';
import type { AccountHistory } from '../model/history.ts';
import type { LoopSpec } from '../scheduler/loop-set.ts';
import type { AccountChanges } from './accounts.ts';
import { type Alerting, openAlerting } from './alerting.ts';
import { type AutoCancel, createAutoCancel } from './auto-cancel.ts';
import { changesBetween } from './changes.ts';
import { type AccountNames, type Base, closeUnlessKept, openParts, type Parts, settle } from './parts.ts';
import { openRecording, type Recording } from './recording.ts';
import { createShownSources, type ShownSources } from './shown-sources.ts';
import { version } from './version.ts';
import { createAgentView } from './view/agent.ts';
import { type AgentProblems, createAgentProblems } from './view/agent-problems.ts';
import { createAutoCancelView } from './view/auto-cancel.ts';
import { createHistoryView } from './view/history.ts';
import type { KeptRows, Row } from './view/overview-rows.ts';
import type { Shared, SharedViews } from './view/shared.ts';
import { createViews } from './view/views.ts';
import { watchRounds } from './view/watch.ts';

/** Everything that one configuration asks for, but for the port. Its accounts have loops of their own. */
export interface Generation extends Parts {
  readonly loaded: LoadedConfig;
  readonly alerting: Alerting;
  readonly autoCancel: AutoCancel | undefined;
  readonly recording: Recording;
  /** What was recorded of an account; undefined where none has that name. */
  readonly history: (account: string) => AccountHistory | undefined;
  readonly agentProblems: AgentProblems;
  /** All that is known: the page and the history have it whole. */
  readonly sources: readonly Source[];
  /** All that /metrics shows. */
  readonly shown: readonly Source[];
  /** What makes these of those, remembering. */
  readonly shownSources: ShownSources;
  readonly exposition: Exposition;
  readonly served: Omit<Served, 'reload' | 'reloadFaults' | 'version' | 'clock'>;
  /** What the overview shows of each account, for as long as that is there. */
  readonly rows: KeptRows;
  /** Accounts that other replicas hold; undefined if the store is not shared. */
  readonly shared: Shared | undefined;
  readonly loops: readonly LoopSpec[];
  /** Puts the budget use of its accounts, how fresh their data is, and what was recorded into the store. Never throws. */
  save(): Promise<void>;
}

/** Lines of the journal that are given at a time: some 10 MB of JSON. */
const MOST_LINES = 10_000;

/** Milliseconds between two checks of auto-cancel for due work; an idle check is free. */
const ACT_EVERY = 1000;

/** Milliseconds between two checks of the alert senders for due work; an idle check is free. */
const SEND_EVERY = 1000;

/** Interval at which traces of ended messages are sent, milliseconds. */
const LIFECYCLES_EVERY = 2000;

/** Milliseconds after the start in which the first heartbeat is tried. */
const FIRST_HEARTBEAT = 10_000;

type Made = Pick<
  Generation,
  'loaded' | 'traces' | 'pushMetrics' | 'alerting' | 'autoCancel' | 'recording' | 'agentProblems'
>;

function loopsOf(
  { loaded, traces, pushMetrics, alerting, autoCancel, recording, agentProblems }: Made,
  { random }: Pick<Base, 'random'>,
): LoopSpec[] {
  const { alerts, heartbeat, push } = loaded.config;
  const specs = (bodies: readonly LoopSpec['body'][], every: number, firstDelay = () => every): LoopSpec[] =>
    bodies.map(body => ({ body, every, firstDelay: firstDelay() }));
  const every = heartbeat?.every ?? 0;
  return [
    ...specs(traces.exportMessages ? [traces.exportMessages] : [], LIFECYCLES_EVERY),
    // Not with every other agent that was started with this one.
    ...specs(
      pushMetrics.loops ? [pushMetrics.loops.note] : [],
      push.metrics.every,
      () => push.metrics.every * random(),
    ),
    ...specs(pushMetrics.loops ? [pushMetrics.loops.send] : [], SEND_EVERY),
    ...specs(autoCancel?.loops ?? [], ACT_EVERY),
    // At different times: a thousand accounts at once would hold up everything else.
    ...specs(
      alerting.evaluations(autoCancel?.sources ?? []),
      alerts.evaluateEvery,
      () => alerts.evaluateEvery * random(),
    ),
    ...recording.loops,
    ...specs([agentProblems.look], SAMPLE_EVERY),
    ...specs(alerting.senders, SEND_EVERY),
    // Soon after the start, and not with every other agent that was started with this one.
    ...specs(alerting.heartbeat ? [alerting.heartbeat] : [], every, () => Math.min(every, FIRST_HEARTBEAT) * random()),
  ];
}

function expositionOf(
  sources: readonly Source[],
  { log, holding }: Pick<Base, 'log' | 'holding'>,
  before: Exposition | undefined,
): Exposition {
  if (before) return before.over(sources);
  return createExposition(
    sources,
    // One bug must not cost every account's scrape.
    ({ account }, error) => log.error({ account, stack: error instanceof Error ? error.stack : String(error) }, 'bug'),
    account => holding?.isCurrent(account) ?? true,
  );
}

type ViewsBase = Pick<Base, 'clock' | 'process' | 'reloads' | 'log'>;

/** What the page and the API show. */
function viewsOf(
  made: Assembled,
  { clock, process, reloads, log }: ViewsBase,
): Views & { rows(): Promise<readonly Row[]> } {
  const { loaded, accounts, alerting, autoCancel, sources, rows, history, agentProblems, elsewhere } = made;
  const { config } = loaded;
  const historyOf = (name: string) => history(name) ?? elsewhere?.history(name);
  const problems = new Map(accounts.all.map(account => [account.name, account.problems]));
  return createViews(
    {
      version,
      clock,
      accounts: accounts.all,
      settings: config.accounts,
      autoCancel,
      sources,
      alerts: alerting.alerts,
      history: name => history(name) ?? { recent: () => [] },
      problemLog: name => problems.get(name) ?? { firstSeen: () => undefined },
      agentProblems: agentProblems.now,
      kept: rows,
      elsewhere,
      log,
    },
    {
      history: createHistoryView(historyOf, config.store.history, clock),
      autoCancel: createAutoCancelView({
        config,
        autoCancel,
        others: elsewhere?.others.autoCancel ?? (() => []),
        self: elsewhere?.self ?? NOT_SHARED,
        journal: autoCancel && elsewhere ? elsewhere.journalIfThere(autoCancel.journal) : journalOf(made),
        clock,
      }),
      agent: createAgentView({
        version,
        clock,
        loaded,
        process,
        lastReload: () => reloads.last,
        statuses: () => accounts.all.map(account => account.shownStatus()),
        notifications: alerting.notifications,
        problems: agentProblems.now,
      }),
    },
  );
}

/** A generation before there is something to serve of it. */
type Assembled = Omit<Generation, 'served' | 'loops' | 'save'> & {
  readonly elsewhere: SharedViews | undefined;
};

/** The journal of all accounts, whichever replica holds them. */
function journalOf({ autoCancel, elsewhere }: Pick<Assembled, 'autoCancel' | 'elsewhere'>): AutoCancel['journal'] {
  if (!autoCancel) return async () => [];
  return elsewhere?.journal(autoCancel.journal) ?? autoCancel.journal;
}

/** What requests are answered from. */
function servedOf(made: Assembled, base: ViewsBase, views: Views): Generation['served'] {
  const { loaded, accounts, alerting, autoCancel, exposition, elsewhere } = made;
  const { process } = base;
  const journal = journalOf(made);
  const served: Generation['served'] = {
    externalUrl: loaded.config.server.externalUrl,
    accounts: loaded.config.accounts.map(({ name }) => name),
    async exposition(scope, format, gzip) {
      if (typeof scope === 'string') await process.refresh();
      return { contentType: CONTENT_TYPES[format], body: await exposition.renderInSlices({ scope, format, gzip }) };
    },
    status: () => accounts.all.map(account => account.shownStatus()),
    explain: async (id, account) => autoCancel?.explain(id, account) ?? [],
    command: (command, signal) =>
      autoCancel?.command(command, signal) ?? Promise.resolve({ ok: false, why: 'auto-cancel is off' }),
    journal: since => journal(since, MOST_LINES),
    alerts: alerting.alerts,
    watch: () => watchRounds(accounts.all),
    ...views,
  };
  return elsewhere?.serve(served) ?? served;
}

/** How a generation differs from the one before. To be forgotten once it is in use: it holds on to what is gone. */
export interface Change extends Pick<AccountChanges, 'fresh' | 'old'> {
  /** By the words of the configuration. */
  readonly changes: readonly string[];
  /** Lets the one before go on instead. */
  undo(): Promise<void>;
}

/**
 * Builds it; nothing of it runs. `before`: what runs. What has not changed since is the same object in both, and only accounts
 * that changed are stopped. Rejects when something can't be had; then all goes on as before.
 */
export async function buildGeneration(
  loaded: LoadedConfig,
  base: Base,
  which: AccountNames,
  before?: Generation,
): Promise<{ readonly generation: Generation; readonly change: Change }> {
  const { parts, change } = await openParts(loaded, base, which, before);
  const undo = async () => {
    change.undo();
    await closeUnlessKept(parts, before);
  };
  try {
    const generation = await assemble(loaded, base, parts, before);
    const others = before && before.loaded !== loaded ? changesBetween(before.loaded.config, loaded.config) : [];
    return { generation, change: { ...change, changes: [...change.changes, ...others], undo } };
  } catch (error) {
    await undo();
    throw error;
  }
}

const namesOf = (accounts: readonly { readonly name: string }[]) => accounts.map(({ name }) => name);

async function sharedOf(base: Base, before: Generation | undefined): Promise<Shared | undefined> {
  const { holding, store } = base;
  if (!holding || !store.replicas) return undefined;
  return before?.shared ?? (await import('./view/shared.ts')).createShared(base, holding, store.replicas);
}

/** All that is made from the parts. */
async function assemble(loaded: LoadedConfig, base: Base, parts: Parts, before?: Generation): Promise<Generation> {
  const { accounts } = parts;
  const common = { ...base, config: loaded.config, accounts: accounts.all };
  // Of a thousand accounts each step takes milliseconds, and a hand-over is no reason to hold up requests.
  const turns = createTurns();
  const histories = new Map(accounts.all.map(({ name, history }) => [name, history]));
  const history = (name: string) => histories.get(name);
  const isHeld = (name: string) => histories.has(name) && (base.holding?.isCurrent(name) ?? true);
  const alerting = await openAlerting({ ...common, history }, before?.alerting);
  const { outbox, states: alertStates } = alerting;
  await turns.pass();
  // Between the two: auto-cancel reads the alerts' states, and alerts its numbers.
  const autoCancel = await createAutoCancel(
    { ...common, outbox, alertStates, leaseLeft: account => base.holding?.remaining(account) },
    before?.autoCancel,
    before !== undefined,
  );
  const sources = [
    ...accounts.all.flatMap(account => account.sourcesWith(accounts.infoFamily)),
    ...(autoCancel?.sources ?? []),
    ...alerting.sources,
    ...parts.pushMetrics.sources,
    base.process.source,
    ...(base.leases ? [base.leases.sourceOf(namesOf(loaded.config.accounts), isHeld)] : []),
  ];
  await turns.pass();
  const recording = openRecording({ ...common, sources, autoCancel }, before?.recording);
  await turns.pass();
  const shared = await sharedOf(base, before);
  const elsewhere = shared?.over(
    loaded.config,
    accounts.all.map(({ name }) => name),
  );
  const agentProblems = createAgentProblems({
    ...common,
    notifications: alerting.notifications,
    databaseAway: base.holding?.awaySince,
    pushTrouble: parts.pushMetrics.trouble,
  });
  const shownSources = before?.shownSources ?? createShownSources();
  const shown = shownSources(sources, loaded.config.accounts);
  const exposition = expositionOf(shown, base, before?.exposition);
  await turns.pass();
  const rows = before?.rows ?? new WeakMap();
  const made = { ...parts, loaded, alerting, autoCancel, recording, history, agentProblems, exposition, rows, shared };
  const all = { sources, shown, shownSources };
  const assembled = { ...made, ...all, elsewhere };
  const views = viewsOf(assembled, base);
  await turns.pass();
  const loops = loopsOf(made, base);
  await turns.pass();
  return {
    ...made,
    ...all,
    served: servedOf(assembled, base, views),
    loops,
    async save() {
      elsewhere?.use();
      const rows = await elsewhere?.changes({
        accounts: accounts.all,
        rows: views.rows,
        alerts: alerting.alerts,
        autoCancel,
        failed: (account, error) =>
          base.log.error({ account, stack: error instanceof Error ? error.stack : String(error) }, 'bug'),
      });
      await settle(
        accounts.all.map(account => account.save(rows?.get(account.name))),
        base,
      );
    },
  };
}
