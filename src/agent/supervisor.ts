import { hostname } from 'node:os';
import pLimit from 'p-limit';
import { type AutoCancel, AutoCancelAccounts } from '../auto-cancel/accounts.ts';
import { changesBetween } from '../config/changes.ts';
import type { LoadedConfig } from '../config/load.ts';
import { replicaUrlOf } from '../config/replica-url.ts';
import type { Source } from '../metrics/family.ts';
import { createShownSources } from '../metrics/shown-sources.ts';
import { Alerting } from '../rules/alerting.ts';
import { createLoops } from '../scheduler/loop.ts';
import type { ShownAccount } from '../status/account.ts';
import { failedAccount } from '../status/failed-account.ts';
import { NO_ACCOUNT } from '../store/store.ts';
import { Traces } from '../telemetry/traces.ts';
import { type AgentBase, waitUntilSaved } from './base.ts';
import { dispatchersOf, type Prepared, prepare, type Tenant } from './prepared.ts';
import { RunningAccount } from './running-account.ts';
import { Slot, type SlotDeps } from './slot.ts';

/** Maximum number of accounts that start concurrently. A first round may read minutes of history. */
const CONCURRENCY = 8;
/** Maximum time (ms) that one account's first round may delay other accounts. */
const MAX_START = 1000;

const nothing = async () => undefined;

/** The agent-wide part: rows of alerts and notifications that belong to no account. It has no settings. */
const AGENT_WIDE: Tenant = {
  keepsReading: () => true,
  keepsAutoCancel: () => true,
  isConfigured: () => true,
  configure: nothing,
  stopAutoCancel: nothing,
  stop: nothing,
  save: nothing,
};

/** Snapshot of the configuration and the accounts of this process. Replaced when either changes. */
export interface AgentState {
  readonly loaded: LoadedConfig;
  /** In the order of the configuration. */
  readonly accounts: readonly ShownAccount[];
  readonly running: readonly RunningAccount[];
  readonly sources: readonly Source[];
  /** `sources` without the excluded families. */
  readonly shown: ReturnType<ReturnType<typeof createShownSources>>;
  readonly autoCancel: AutoCancel | undefined;
}

/** Runs the accounts. After each change, `reconcile` closes and opens slots until they match the configuration. */
export class Supervisor {
  readonly alerting: Alerting;
  readonly traces: Traces;
  /** Applies a reloaded configuration to the port, once it is open. */
  applyToPort: (loaded: LoadedConfig) => void = () => undefined;
  readonly #base: AgentBase;
  readonly #autoCancel: AutoCancelAccounts;
  readonly #agentWide: Slot<Tenant>;
  readonly #accounts = new Map<string, Slot<RunningAccount>>();
  readonly #inTurn = pLimit(1);
  readonly #loops: ReturnType<typeof createLoops>;
  readonly #starting = new Set<Promise<unknown>>();
  readonly #stopping = new AbortController();
  readonly #shownSources = createShownSources();
  #prepared!: Prepared;
  #state: AgentState | undefined;
  #isLeading: boolean;
  #isStarted = false;
  #isQueued = false;

  private constructor({ config }: LoadedConfig, base: AgentBase) {
    this.#base = base;
    this.#isLeading = base.leadership === undefined;
    this.#loops = createLoops(base);
    this.alerting = new Alerting(config, { ...base, accounts: () => this.state().accounts });
    this.traces = new Traces({ ...base, spans: base.process.spans });
    this.#autoCancel = new AutoCancelAccounts(config, {
      ...base,
      journals: this.alerting.sending,
      alertStates: account => this.alerting.states(account),
      leaseLeft: () => base.leadership?.remaining(),
    });
    this.#agentWide = this.#createSlot(NO_ACCOUNT, {
      open: async () => {
        await this.alerting.open(NO_ACCOUNT);
        return AGENT_WIDE;
      },
      opened: () => undefined,
    });
  }

  /** Opens all accounts. In a group, the accounts are opened later, when this process leads. */
  static async open(loaded: LoadedConfig, base: AgentBase): Promise<Supervisor> {
    const opened = new Supervisor(loaded, base);
    opened.#prepared = prepare(loaded, base);
    const commit = await opened.#prepareParts(loaded);
    await commit();
    await opened.reconcile();
    return opened;
  }

  state(): AgentState {
    this.#state ??= this.#createState();
    return this.#state;
  }

  get loaded(): LoadedConfig {
    return this.#prepared.loaded;
  }

  /** Starts the accounts; in a group, as soon as this process leads. `lost`: called when another process leads instead. */
  start(lost: () => void = () => undefined): void {
    const { leadership, intervals } = this.#base;
    const { save, retry } = intervals;
    this.#isStarted = true;
    void this.#loops.start(save, save, () => this.save());
    void this.#loops.start(retry, retry, async () => this.#retryDue());
    if (this.#isLeading) this.#lead();
    leadership?.start({
      won: () => this.#lead(),
      lost: () => {
        this.#stopping.abort();
        for (const slot of this.#slots()) slot.revoke();
        lost();
      },
    });
  }

  /** Switches to another configuration and returns the changes. If it rejects, only unused connections of it remain, until the next reload. Retries failed accounts. */
  reload(next: LoadedConfig): Promise<readonly string[]> {
    return this.#inTurn(async () => {
      const before = this.#prepared;
      const prepared = prepare(next, this.#base);
      await this.#reconcile(prepared, await this.#prepareParts(next));
      return changesBetween(before.loaded.config, next.config);
    });
  }

  /** Closes accounts that should not run and opens missing ones. Never rejects. */
  reconcile(): Promise<void> {
    return this.#inTurn(() => this.#reconcile(this.#prepared));
  }

  /** Saves all accounts. Never rejects. */
  async save(): Promise<void> {
    await waitUntilSaved(
      this.#running().map(account => account.save()),
      this.#base,
    );
  }

  /** Stops all loops. Aborts requests in flight; those to receivers have two more seconds. Data is still served. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#base.leadership?.drain();
    await Promise.all([
      ...this.#slots().map(slot => slot.stop()),
      ...this.#starting,
      this.#loops.close(),
      this.alerting.stop(),
      this.#autoCancel.close(),
      this.#inTurn(nothing),
    ]);
  }

  /** Saves everything, and sends pending spans. Call it after `stop`. */
  async close(): Promise<void> {
    await this.alerting.close();
    await this.save();
    await this.traces.close();
  }

  #slots(): readonly (Slot<Tenant> | Slot<RunningAccount>)[] {
    return [this.#agentWide, ...this.#accounts.values()];
  }

  #running(): readonly RunningAccount[] {
    return [...this.#accounts.values()].flatMap(({ tenant }) => tenant ?? []);
  }

  #createState(): AgentState {
    const { loaded, desired } = this.#prepared;
    const { leaseMeter, process, leadership } = this.#base;
    const placed = [...desired.values()].flatMap(
      ({ settings }): readonly { readonly account: ShownAccount; readonly sources: readonly Source[] }[] => {
        const { tenant, last, failure } = this.#accounts.get(settings.name) ?? {};
        if (tenant) return [tenant];
        return failure ? [failedAccount(settings, failure, last?.account)] : last ? [last] : [];
      },
    );
    const sources = [
      ...placed.flatMap(each => each.sources),
      ...placed.flatMap(({ account: { name } }) => this.alerting.sourcesOf(name)),
      ...this.alerting.sources,
      process.source,
      ...(leaseMeter && leadership ? [leaseMeter.sourceOf(loaded.config.store.schema, leadership.isCurrent)] : []),
    ];
    return {
      loaded,
      accounts: placed.map(({ account }) => account),
      running: [...desired.keys()].flatMap(name => this.#accounts.get(name)?.tenant ?? []),
      sources,
      shown: this.#shownSources(sources, loaded.config.accounts),
      autoCancel: this.#autoCancel.view(),
    };
  }

  #createSlot<T extends Tenant>(name: string, deps: Pick<SlotDeps<T>, 'open' | 'opened'>): Slot<T> {
    const changed = () => {
      this.#state = undefined;
    };
    return new Slot(name, { base: this.#base, stopping: this.#stopping.signal, changed, ...deps });
  }

  #createAccountSlot(name: string): Slot<RunningAccount> {
    const { alerting, traces } = this;
    const parts = { base: this.#base, alerting, traces, autoCancel: this.#autoCancel };
    return this.#createSlot(name, {
      open: (session, prepared, last) => RunningAccount.open(session, prepared, parts, last),
      opened: account => {
        if (this.#isStarted) this.#startAccounts([account]);
      },
    });
  }

  /** Prepares the parts that all accounts share. Returns a function that replaces the current ones and never rejects. */
  async #prepareParts(loaded: LoadedConfig): Promise<() => Promise<void>> {
    const { config, hash } = loaded;
    const { env, log, secrets, process, clock } = this.#base;
    const { host } = new URL(replicaUrlOf(config.server, env, hostname()));
    const receivers = this.alerting.sending.prepare(config);
    // Last, because traces would have to be closed if a later part failed.
    const traces = await this.traces.prepare(config.tracing, host);
    return async () => {
      this.#autoCancel.use(config);
      log.use(config.log);
      secrets.use(config);
      process.configLoaded(hash, clock.now());
      this.traces.use(traces);
      await this.alerting.use(config, receivers);
      this.applyToPort(loaded);
    };
  }

  async #reconcile(prepared: Prepared, commit?: () => Promise<void>): Promise<void> {
    if (this.#stopping.signal.aborted) return;
    this.#isQueued = false;
    const slots = this.#slots();
    const isWanted = ({ name }: { readonly name: string }) => name === NO_ACCOUNT || prepared.desired.has(name);
    // Stop auto-cancel first: a removed rule must not cancel anything.
    await Promise.all(slots.map(slot => slot.stopActing(prepared, isWanted(slot))));
    if (commit) await this.#activate(prepared, commit);
    // Close accounts before opening others: a renamed account uses the same account of the service.
    await Promise.all(slots.map(slot => slot.close(prepared, isWanted(slot))));
    for (const slot of this.#accounts.values()) {
      if (isWanted(slot)) continue;
      await this.alerting.remove(slot.name);
      this.#accounts.delete(slot.name);
      this.#state = undefined;
    }
    await pLimit(CONCURRENCY).map(this.#slots(), slot => slot.configure(prepared));
    if (this.#isLeading) {
      for (const name of prepared.desired.keys())
        if (!this.#accounts.has(name)) this.#accounts.set(name, this.#createAccountSlot(name));
      await this.#agentWide.open(prepared);
      await pLimit(CONCURRENCY).map(this.#accounts.values(), slot => slot.open(prepared));
    }
    await this.#base.dispatchers.keep(dispatchersOf(prepared, this.#running()));
  }

  async #activate(prepared: Prepared, commit: () => Promise<void>): Promise<void> {
    this.#prepared = prepared;
    for (const slot of this.#slots()) slot.retry();
    // Keep this synchronous: label names of a family must match in every scrape.
    for (const { tenant, last } of this.#accounts.values()) (tenant ?? last)?.describe(prepared);
    this.#state = undefined;
    await commit();
    this.#state = undefined;
  }

  /** Starts everything that only the leader does. */
  #lead(): void {
    const isOpen = this.#isLeading;
    this.#isLeading = true;
    void this.#autoCancel.start();
    this.alerting.start();
    if (isOpen) this.#startAccounts(this.#running());
    else this.#queue();
  }

  #retryDue(): void {
    if (this.#isLeading && !this.#base.leadership?.isUnavailable() && this.#slots().some(({ isDue }) => isDue))
      this.#queue();
  }

  #startAccounts(accounts: readonly RunningAccount[]): void {
    const start = async (account: RunningAccount) => {
      if (this.#stopping.signal.aborted) return;
      const started = new AbortController();
      const late = this.#base.clock.sleep(MAX_START, started.signal).catch(nothing);
      await Promise.race([account.start(), late]);
      started.abort();
    };
    const starting = pLimit(CONCURRENCY)
      .map(accounts, start)
      .finally(() => this.#starting.delete(starting));
    this.#starting.add(starting);
  }

  #queue(): void {
    if (this.#isQueued || this.#stopping.signal.aborted) return;
    this.#isQueued = true;
    void this.reconcile();
  }
}
