import { type AutoCancelAccounts, type OpenAutoCancel, policyFor } from '../auto-cancel/accounts.ts';
import type { Source } from '../metrics/family.ts';
import type { MessageSpans } from '../model/message-span.ts';
import type { Session } from '../replicas/session.ts';
import type { Alerting } from '../rules/alerting.ts';
import { checkAccount } from '../rules/checks/run.ts';
import { createLoopSlot, type LoopSlot } from '../scheduler/loop-slot.ts';
import { checkInputAt } from '../status/account.ts';
import { createInfoSource } from '../status/account-metrics.ts';
import { createSampling, historyLimits } from '../status/recording.ts';
import type { Traces } from '../telemetry/traces.ts';
import { type Account, openAccount } from './account.ts';
import type { AgentBase } from './base.ts';
import type { DesiredAccount, Prepared, Tenant } from './prepared.ts';

export interface RunningDeps {
  readonly base: AgentBase;
  readonly alerting: Alerting;
  readonly autoCancel: AutoCancelAccounts;
  readonly traces: Traces;
}

/** Minimum delay of the first sample (ms). */
const FIRST_SAMPLE = 5000;
/** Time per account over which first samples are spread (ms), so that a thousand accounts do not block the process. */
const APART = 1000;

/** An open account with its auto-cancel, alerts and history. */
export class RunningAccount implements Tenant {
  readonly account: Account;
  readonly session: Session;
  readonly #desired: DesiredAccount;
  readonly #deps: RunningDeps;
  readonly #sampling: LoopSlot;
  #autoCancel: OpenAutoCancel | undefined;
  #lastAutoCancel: OpenAutoCancel | undefined;
  #sources: readonly Source[] = [];
  #sample: () => Promise<void> = async () => undefined;
  #isStarted = false;
  #isAutoCancelStopped = false;
  #configured: Prepared | undefined;

  constructor(account: Account, session: Session, desired: DesiredAccount, deps: RunningDeps, last?: RunningAccount) {
    this.account = account;
    this.session = session;
    this.#desired = desired;
    this.#deps = deps;
    this.#sampling = createLoopSlot(deps.base);
    this.#lastAutoCancel = last?.autoCancel;
  }

  /** Opens an account from its stored rows, without sending requests. `last`: its closed predecessor. Rejects with StoreError. */
  static async open(
    session: Session,
    { loaded: { config }, desired: accounts }: Prepared,
    deps: RunningDeps,
    last?: RunningAccount,
  ): Promise<RunningAccount> {
    const { base, alerting, traces } = deps;
    const { account: name, store, leadership } = session;
    const desired = accounts.get(name);
    if (!desired) throw new Error(`the account ${name} is not configured`);
    const { requestSeconds } = base.process;
    const dispatchers = { for: () => desired.dispatcher };
    // Look up the function at each call, because a reload may replace it.
    const messageSpans: MessageSpans | undefined =
      traces.messageSpans && ((...which) => traces.messageSpans?.(...which));
    await alerting.open(name);
    const own = { ...base, store, leadership, config, dispatchers, requestSeconds, messageSpans };
    const account = await (base.openAccount ?? openAccount)(desired.settings, own, last?.account);
    return new RunningAccount(account, session, desired, deps, last);
  }

  get name(): string {
    return this.account.name;
  }

  get autoCancel(): OpenAutoCancel | undefined {
    return this.#autoCancel;
  }

  get sources(): readonly Source[] {
    return this.#sources;
  }

  get dispatcher(): DesiredAccount['dispatcher'] {
    return this.#desired.dispatcher;
  }

  keepsReading({ desired }: Prepared): boolean {
    const { identity, dispatcher } = desired.get(this.name) ?? {};
    return identity === this.#desired.identity && dispatcher === this.#desired.dispatcher;
  }

  isConfigured(prepared: Prepared): boolean {
    return this.#configured === prepared;
  }

  keepsAutoCancel({ loaded }: Prepared): boolean {
    return !this.#isAutoCancelStopped && this.#autoCancel?.policy === policyFor(loaded.config, this.name);
  }

  /** Updates `delivery_account_info`. Its label names must be the same for all accounts. */
  describe({ desired, info }: Prepared): void {
    const settings = desired.get(this.name)?.settings;
    if (!settings) return;
    const { account } = this;
    const own = this.#autoCancel ? [this.#autoCancel.source] : [];
    this.#sources = [...account.sources, createInfoSource(settings, info, account.plan), ...own];
  }

  /**
   * Applies all settings except those for polling. Stop auto-cancel first if its settings change. Rejects with StoreError.
   */
  async configure(prepared: Prepared): Promise<void> {
    const { base, alerting, autoCancel } = this.#deps;
    const { account } = this;
    const { config } = prepared.loaded;
    const { settings } = prepared.desired.get(this.name) ?? this.#desired;
    await account.use(settings);
    account.history.use(historyLimits(config.store.history, config.accounts.length));
    let failure: Error | undefined;
    if (!this.keepsAutoCancel(prepared)) {
      this.#lastAutoCancel = this.#autoCancel ?? this.#lastAutoCancel;
      this.#autoCancel = undefined;
      try {
        // Alerts may pause auto-cancel, so load their states first.
        await alerting.open(this.name);
        this.#autoCancel = await autoCancel.open(account, this.#lastAutoCancel);
        // Release the predecessor, which would keep all earlier ones reachable.
        if (this.#autoCancel) this.#lastAutoCancel = undefined;
        this.#isAutoCancelStopped = false;
        if (this.#isStarted) this.#autoCancel?.start();
      } catch (error) {
        failure = error instanceof Error ? error : new Error(String(error));
      }
    }
    account.autoCancelFailure = failure;
    this.describe(prepared);
    const numbers = this.#autoCancel?.own.numbers;
    const checkInput = () => checkInputAt({ account, settings, autoCancel: numbers }, base.clock.now());
    await alerting.evaluate(account, this.#sources, () => checkAccount(checkInput()));
    const sources = [...this.#sources, ...alerting.sourcesOf(this.name)];
    this.#sample = createSampling(account, { ...base, config, sources, checkInput });
    if (failure) throw failure;
    this.#configured = prepared;
  }

  /** Starts all loops. Resolves when each round has run once. */
  async start(): Promise<void> {
    this.#isStarted = true;
    this.#autoCancel?.start();
    const { random, intervals } = this.#deps.base;
    const spread = Math.min(intervals.sample, APART * (this.#configured?.desired.size ?? 1));
    const firstDelay = FIRST_SAMPLE + spread * random();
    void this.#sampling.run(this, { every: intervals.sample, firstDelay, body: () => this.sample() });
    await this.account.start();
  }

  sample(): Promise<void> {
    return this.#sample();
  }

  /** Stops auto-cancel after recording the result of a request in flight. */
  async stopAutoCancel(): Promise<void> {
    this.#isAutoCancelStopped = true;
    await this.#autoCancel?.stop();
  }

  save(): Promise<void> {
    return this.account.save();
  }

  async stop(): Promise<void> {
    this.#isStarted = false;
    await Promise.all([this.account.stop(), this.#sampling.close(), this.stopAutoCancel()]);
  }
}
