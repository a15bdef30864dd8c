import pLimit from 'p-limit';
import { AutoCancelAccounts } from '../auto-cancel/accounts.ts';
import { changesBetween } from '../config/changes.ts';
import type { LoadedConfig } from '../config/load.ts';
import { createShownSources } from '../metrics/shown-sources.ts';
import type { Change } from '../model/change.ts';
import { createSession, handoverFields, type Session } from '../replicas/session.ts';
import { Alerting } from '../rules/alerting.ts';
import { createLoops } from '../scheduler/loop.ts';
import { startStaggered } from '../scheduler/start-staggered.ts';
import { NO_ACCOUNT } from '../store/store.ts';
import { type AgentState, createAgentState } from './agent-state.ts';
import { Exporting } from './exporting.ts';
import { AccountFailures } from './failures.ts';
import { type AgentBase, waitUntilSaved } from './parts.ts';
import { dispatchersOf, type Prepared, prepare } from './prepared.ts';
import { RunningAccount, type RunningDeps } from './running-account.ts';

type StatusRows = () => Promise<ReadonlyMap<string, readonly Change[]> | undefined>;

/** Maximum number of accounts that start concurrently. A first round may read minutes of history. */
const CONCURRENCY = 8;
/** Maximum time (ms) that one account's first round may delay other accounts. */
const MAX_START = 1000;

/** Runs the accounts. After each change, `reconcile` closes and opens accounts until they match the configuration and the leases. */
export class Supervisor {
  readonly alerting: Alerting;
  readonly exporting: Exporting;
  readonly #base: AgentBase;
  readonly #autoCancel: AutoCancelAccounts;
  readonly #parts: RunningDeps;
  readonly #running = new Map<string, RunningAccount>();
  /** Closed accounts that will be reopened. Their data is still served. */
  readonly #closed = new Map<string, RunningAccount>();
  readonly #sessions = new Map<string, Session>();
  readonly #failures: AccountFailures;
  readonly #inTurn = pLimit(1);
  readonly #loops: ReturnType<typeof createLoops>;
  readonly #starting = new Set<Promise<void>>();
  readonly #stopping = new AbortController();
  readonly #shownSources = createShownSources();
  #prepared!: Prepared;
  #state: AgentState | undefined;
  /** Whether this process does agent-wide work: the heartbeat, and alert groups that span several accounts. */
  #isAgentWide = false;
  #isStarted = false;
  #isQueued = false;

  private constructor({ config }: LoadedConfig, base: AgentBase) {
    this.#base = base;
    this.#failures = new AccountFailures(base);
    this.#loops = createLoops(base);
    this.alerting = new Alerting(config, { ...base, accounts: () => this.state().accounts });
    this.exporting = new Exporting({
      ...base,
      spans: base.process.spans,
      accounts: () => this.state().running.map(({ name }) => name),
    });
    this.#autoCancel = new AutoCancelAccounts(config, {
      ...base,
      outbox: this.alerting.outbox,
      alertStates: account => this.alerting.states(account),
      leaseLeft: account => base.holding?.remaining(account),
    });
    const { alerting, exporting } = this;
    this.#parts = { base, alerting, exporting, autoCancel: this.#autoCancel };
  }

  /** Opens all accounts; with replicas, `start` opens them. */
  static async open(loaded: LoadedConfig, base: AgentBase): Promise<Supervisor> {
    const opened = new Supervisor(loaded, base);
    opened.#prepared = await prepare(loaded, opened.#parts);
    opened.exporting.use(opened.#prepared.traces);
    await opened.reconcile();
    return opened;
  }

  state(): AgentState {
    this.#state ??= createAgentState({
      ...this.#base,
      prepared: this.#prepared,
      running: this.#running,
      closed: this.#closed,
      failureOf: name => this.#failures.of(name),
      alertsOf: name => this.alerting.sourceOf(name),
      others: this.alerting.sources,
      selectShown: this.#shownSources,
      autoCancel: this.#autoCancel.view(),
    });
    return this.#state;
  }

  get loaded(): LoadedConfig {
    return this.#prepared.loaded;
  }

  start(statusRows: StatusRows = async () => undefined): void {
    const {
      holding,
      intervals: { save, retry },
    } = this.#base;
    this.#isStarted = true;
    void this.#autoCancel.start();
    this.alerting.start();
    void this.exporting.start();
    void this.#loops.start(save, save, async () => this.save(await statusRows()));
    void this.#loops.start(retry, retry, async () => this.#retryDue());
    this.#startAccounts([...this.#running.values()]);
    holding?.start({ lost: names => this.#revoke(names), renewed: () => this.#followLeases() });
  }

  /**
   * Switches to another configuration and returns the changes. `commit` may still reject it. If `reload` rejects, nothing has
   * changed; accounts that fail to open are retried.
   */
  reload(next: LoadedConfig, commit: () => Promise<void>): Promise<readonly string[]> {
    const { holding, dispatchers } = this.#base;
    return this.#inTurn(async () => {
      const before = this.#prepared;
      let prepared: Prepared | undefined;
      try {
        prepared = await prepare(next, this.#parts, before);
        await commit();
      } catch (error) {
        if (prepared) await this.exporting.discard(prepared.traces);
        await dispatchers.keep(dispatchersOf(before, this.#running.values()));
        throw error;
      }
      await this.#reconcile(prepared);
      holding?.use([...prepared.desired.keys()]);
      void holding?.renew();
      return changesBetween(before.loaded.config, next.config);
    });
  }

  /** Closes accounts that should not run and opens missing ones. Never rejects. */
  reconcile(): Promise<void> {
    return this.#inTurn(() => this.#reconcile(this.#prepared));
  }

  /** Saves all accounts together with `rows`. Never rejects. */
  async save(rows?: Awaited<ReturnType<StatusRows>>): Promise<void> {
    const saving = [...this.#running.values()].map(({ name, account }) => account.save(rows?.get(name)));
    await waitUntilSaved(saving, this.#base);
  }

  /** Stops all loops and aborts requests in flight. Data is still served. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#base.holding?.drain();
    for (const [name, session] of this.#sessions) if (!this.#running.has(name)) session.revoke();
    await Promise.all([
      ...[...this.#running.values()].map(account => account.stop()),
      ...this.#starting,
      this.#loops.close(),
      this.alerting.stop(),
      this.exporting.stop(),
      this.#autoCancel.close(),
      this.#inTurn(async () => undefined),
    ]);
  }

  /** Saves everything, and sends pending traces. Call it after `stop`. */
  async close(): Promise<void> {
    await this.alerting.close();
    await this.save();
    await this.exporting.close();
  }

  async #reconcile(prepared: Prepared): Promise<void> {
    if (this.#stopping.signal.aborted) return;
    this.#isQueued = false;
    const isOther = prepared !== this.#prepared;
    // Stop auto-cancel first: a removed rule must not cancel anything.
    const running = [...this.#running.values()];
    const keeps = (account: RunningAccount) => this.#wants(account.name, prepared) && account.keepsReading(prepared);
    const keepsActing = (account: RunningAccount) => keeps(account) && account.keepsAutoCancel(prepared.loaded.config);
    const acting = running.filter(account => !keepsActing(account));
    await Promise.all(acting.map(account => account.stopAutoCancel()));
    if (isOther) await this.#activate(prepared);
    // Close accounts before opening others: a renamed account uses the same account of the service.
    const closing = running.filter(account => !keeps(account));
    await Promise.all(closing.map(account => this.#close(account, prepared)));
    const lost = closing.map(({ name }) => name).filter(name => !this.#wants(name, prepared));
    if (this.#isAgentWide && !this.#holds(NO_ACCOUNT)) {
      await this.alerting.release(NO_ACCOUNT);
      this.#isAgentWide = false;
      lost.push(NO_ACCOUNT);
    }
    await this.#releaseLeases();
    await pLimit(CONCURRENCY).map(this.#running.values(), account => this.#configure(account, prepared));
    const gained = await this.#openMissing(prepared);
    if (this.#base.holding && gained.length + lost.length > 0) {
      this.#base.log.info(
        { ...handoverFields(gained, lost), held: this.#running.size },
        'accounts move between replicas',
      );
    }
    await this.#base.dispatchers.keep(dispatchersOf(prepared, this.#running.values()));
    if (isOther) await this.exporting.closeReplaced();
  }

  #holds(name: string): boolean {
    return this.#base.holding?.held(name) ?? true;
  }

  #isOpen(name: string): boolean {
    return name === NO_ACCOUNT ? this.#isAgentWide : this.#running.has(name);
  }

  #wants(name: string, { desired }: Prepared): boolean {
    return (name === NO_ACCOUNT || desired.has(name)) && this.#holds(name);
  }

  async #activate(prepared: Prepared): Promise<void> {
    const { log, secrets, process, clock } = this.#base;
    const { config, hash } = prepared.loaded;
    this.#prepared = prepared;
    this.#failures.retryAll();
    // Keep this synchronous: label names of a family must match in every scrape.
    for (const account of [...this.#running.values(), ...this.#closed.values()]) account.describe(prepared);
    this.#state = undefined;
    this.#autoCancel.use(config);
    this.exporting.use(prepared.traces);
    if (this.#isStarted) await this.exporting.start();
    log.use(config.log);
    secrets.use(config);
    process.configLoaded(hash, clock.now());
    await this.alerting.use(config, prepared.receivers);
    this.#state = undefined;
  }

  /** Closes an account. If it cannot be saved and is still wanted, it keeps running. */
  async #close(account: RunningAccount, prepared: Prepared): Promise<void> {
    const { name } = account;
    const isReopened = this.#wants(name, prepared);
    if (isReopened) {
      if (!this.#failures.isDue(name)) return;
      try {
        await account.account.save();
      } catch (error) {
        this.#failures.note(name, error, 'failed to save account; it keeps its settings, retrying later');
        return;
      }
    }
    await account.stop();
    // The new holder continues a lost account from its committed rows.
    const isLost = this.#base.holding?.leaving().get(name) === 'lost';
    if (!isLost) await waitUntilSaved([account.account.save()], this.#base);
    if (isReopened) this.#closed.set(name, account);
    else await this.alerting[prepared.desired.has(name) ? 'release' : 'remove'](name);
    account.session.revoke();
    this.#sessions.delete(name);
    this.#running.delete(name);
    this.#state = undefined;
  }

  async #releaseLeases(): Promise<void> {
    const { desired } = this.#prepared;
    for (const name of new Set([...this.#closed.keys(), ...this.#failures.accounts])) {
      if (this.#wants(name, this.#prepared)) continue;
      this.#closed.delete(name);
      // Keep the failure if no replica holds the account, so that its next delay is longer.
      if (!desired.has(name) || this.#base.holding?.isElsewhere(name)) this.#failures.delete(name);
      if (!this.#running.has(name)) await this.alerting[desired.has(name) ? 'release' : 'remove'](name);
      this.#state = undefined;
    }
    const { holding } = this.#base;
    // An account lost during this run is still open. The next run closes it.
    await holding?.release([...holding.leaving().keys()].filter(name => !this.#isOpen(name)));
  }

  async #configure(account: RunningAccount, prepared: Prepared): Promise<void> {
    const { name } = account;
    if (account.isConfigured(prepared) || !this.#failures.isDue(name)) return;
    try {
      await account.configure(prepared);
      this.#failures.delete(name);
    } catch (error) {
      this.#failures.note(name, error, 'failed to open a part of the account; retrying later');
    }
    this.#state = undefined;
  }

  async #openMissing(prepared: Prepared): Promise<readonly string[]> {
    const gained: string[] = [];
    if (!this.#isAgentWide && this.#holds(NO_ACCOUNT) && this.#failures.isDue(NO_ACCOUNT)) {
      try {
        await this.alerting.open(NO_ACCOUNT);
        this.#isAgentWide = true;
        this.#failures.delete(NO_ACCOUNT);
        gained.push(NO_ACCOUNT);
      } catch (error) {
        await this.#openFailed(NO_ACCOUNT, error);
      }
    }
    await pLimit(CONCURRENCY).map(prepared.desired.keys(), async name => {
      const isMissing = this.#wants(name, prepared) && !this.#running.has(name);
      if (!isMissing || !this.#failures.isDue(name) || this.#stopping.signal.aborted) return;
      try {
        await this.#open(name, prepared);
        gained.push(name);
      } catch (error) {
        await this.#openFailed(name, error);
      }
      this.#state = undefined;
    });
    return gained;
  }

  async #open(name: string, prepared: Prepared): Promise<void> {
    const session = createSession(name, this.#base.store, this.#base.holding);
    this.#sessions.set(name, session);
    await this.alerting.open(name);
    const account = await RunningAccount.open(session, prepared, this.#parts, this.#closed.get(name));
    this.#failures.delete(name);
    // Serve the predecessor's data until the account is configured.
    await this.#configure(account, prepared);
    if (session.isRevoked) {
      await account.stop();
      throw new Error('lost the lease while opening the account');
    }
    this.#running.set(name, account);
    this.#closed.delete(name);
    if (this.#isStarted) this.#startAccounts([account]);
  }

  async #openFailed(name: string, error: unknown): Promise<void> {
    const { holding } = this.#base;
    this.#sessions.get(name)?.revoke();
    this.#sessions.delete(name);
    if (this.#stopping.signal.aborted) return;
    if (holding) {
      await holding.renew();
      // The database is unavailable. The account is opened once it responds again.
      if (holding.isUnavailable()) return;
      await this.alerting.release(name);
      // The lease was lost: the new holder opens the account.
      if (!holding.held(name)) return;
    }
    const ms = this.#failures.note(name, error, 'failed to open account; retrying later');
    if (!holding) return;
    this.#failures.ignoreDelay(name);
    await holding.refuse(name, ms);
  }

  #retryDue(): void {
    const isDue = (name: string) => this.#wants(name, this.#prepared) && this.#failures.isDue(name);
    if (this.#failures.accounts.some(isDue)) this.#queue();
  }

  #startAccounts(accounts: readonly RunningAccount[]): void {
    const { clock } = this.#base;
    const options = { concurrency: CONCURRENCY, timeout: MAX_START, clock, signal: this.#stopping.signal };
    const start = (account: RunningAccount) => account.start();
    const starting = startStaggered(accounts, { ...options, start }).finally(() => this.#starting.delete(starting));
    this.#starting.add(starting);
  }

  /** Stops requests and commits of accounts that another replica may hold. */
  #revoke(names: readonly string[]): void {
    for (const name of names) {
      this.#sessions.get(name)?.revoke();
      void this.#running.get(name)?.stop();
    }
  }

  #followLeases(): void {
    const { holding } = this.#base;
    const isMissing = [NO_ACCOUNT, ...this.#prepared.desired.keys()].some(
      name => this.#holds(name) && !this.#isOpen(name),
    );
    const isOpenElsewhere = this.#failures.accounts.some(name => holding?.isElsewhere(name));
    if (isMissing || isOpenElsewhere || holding?.leaving().size) this.#queue();
  }

  #queue(): void {
    if (this.#isQueued || this.#stopping.signal.aborted) return;
    this.#isQueued = true;
    void this.reconcile();
  }
}
