import { createIdentities } from '../kit/identity.ts';
import { alertsSource } from '../metrics/alerting.ts';
import type { Source } from '../metrics/family.ts';
import { timeText } from '../notify/notice.ts';
import type { Receivers } from '../notify/receivers.ts';
import { Sending, type SendingDeps, type SendingSettings } from '../notify/sending.ts';
import { createSilences, type Silences } from '../notify/silences.ts';
import { createLoopSlot, type LoopSlot } from '../scheduler/loop-slot.ts';
import { isNotHeld, NO_ACCOUNT } from '../store/store.ts';
import { type AccountAlerts, type Alert, openAccountAlerts, ruleNames, sentOf } from './account-alerts.ts';
import type { CheckResult } from './checks/run.ts';
import { type AlertsDeps, builtinRules, createAlerts, type EvaluatedRule } from './evaluation.ts';
import { createAlertFacts, type RuledAccount, type WindowHistory } from './facts.ts';
import { collectorsOf } from './families.ts';
import { type AlertRule, type AlertsOptions, isAbout } from './options.ts';
import { type ProblemState, problemsSource, toProblemState } from './problem-states.ts';

export type AlertingDeps = Omit<SendingDeps, 'states'>;

/** Account data for rule evaluation. Without `history`, conditions over windows are unknown. */
export interface EvaluatedAccount extends RuledAccount {
  readonly history?: WindowHistory;
}

export interface AlertingSettings extends SendingSettings {
  readonly alerts: AlertsOptions;
  readonly server: { readonly externalUrl: string | null };
}

/** Alert states of one account and their evaluation, kept across sessions and reloads. */
interface Entry {
  readonly alerts: AccountAlerts;
  readonly loop: LoopSlot;
  readonly sources: { readonly alerts: Source; readonly problems: Source };
  rules: readonly EvaluatedRule[];
  evaluate: () => Promise<void>;
}

const NO_FACTS = { series: () => undefined, isPartial: () => false, isInconclusive: () => false };

const namesOf = ({ accounts }: AlertingSettings) => accounts.map(({ name }) => name);

export type ShownAlert = Readonly<ReturnType<typeof toShown>>;

function toShown({ labels, annotations, value, state, silencedBy }: Alert) {
  return {
    state: state.phase,
    labels,
    annotations,
    value,
    ...(silencedBy === undefined ? {} : { silencedBy }),
    ...(state.phase === 'pending' ? {} : { startsAt: timeText(state.startsAt) }),
    ...(state.phase === 'resolved' ? { endsAt: timeText(state.endsAt) } : {}),
  };
}

/** Returns the rules that apply to an account, except rules that need a disabled collector: they would stay unknown. */
function rulesFor({ name, state }: EvaluatedAccount, { alerts }: AlertingSettings): readonly AlertRule[] {
  return (alerts.enabled ? alerts.rules : []).filter(
    ({ when }) => isAbout(when, name) && collectorsOf(when).every(collector => state(collector) !== undefined),
  );
}

/** Evaluates the alerts about the accounts and about the agent, and sends their notifications. */
export class Alerting {
  readonly sending: Sending;
  readonly #deps: AlertingDeps;
  readonly #entries = new Map<string, Entry>();
  readonly #identity = createIdentities();
  #config: AlertingSettings;
  #silences: Silences;
  #checkAgent: (() => readonly CheckResult[]) | undefined;

  /** Throws if a secret of a notifier is missing. */
  constructor(config: AlertingSettings, deps: AlertingDeps) {
    this.#deps = deps;
    this.#config = config;
    this.#silences = createSilences(config.alerts.silences, deps.clock.now);
    const notices = () => [...this.#entries.values()].flatMap(({ alerts }) => alerts.notices());
    this.sending = new Sending(config, { ...deps, states: { notices, isKnown: account => this.#isKnown(account) } });
  }

  /** Applies a configuration to senders, silences and heartbeat. Call `evaluate` to apply it to the rules of accounts. */
  async use(config: AlertingSettings, receivers: Receivers): Promise<void> {
    this.#config = config;
    this.#silences = createSilences(config.alerts.silences, this.#deps.clock.now);
    for (const { alerts } of this.#entries.values()) alerts.use(this.#silences);
    await this.sending.use(config, receivers);
    await this.#evaluateAgent();
  }

  start(): void {
    this.sending.start();
    for (const entry of this.#entries.values()) void this.#startEvaluation(entry);
  }

  /**
   * Reads the alert states of an account and the logs of sent alerts. For `NO_ACCOUNT`, also evaluates the
   * alerts about the agent from now on. Rejects with StoreError.
   */
  async open(account: string): Promise<void> {
    await this.#openStates(account);
    await this.sending.open(account);
    if (account !== NO_ACCOUNT) return;
    await this.#evaluateAgent();
  }

  /**
   * Evaluates the configured alerts of an account from now on. Call it for each session of the account and after each reload.
   * Conditions read the metrics of `sources`. `check` runs the built-in checks. Rejects with StoreError if stored states cannot be read.
   */
  async evaluate(
    account: EvaluatedAccount,
    sources: readonly Source[],
    check?: () => readonly CheckResult[],
  ): Promise<void> {
    const { name, history } = account;
    await this.#openStates(name);
    const entry = this.#entries.get(name);
    if (!entry) return;
    const rules = [...(check ? this.#builtinRules('account') : []), ...rulesFor(account, this.#config)];
    await this.#switch(entry, { rules, check, facts: createAlertFacts(account, sources), history });
  }

  /** Sets the checks of the built-in alerts about the agent, which are evaluated once `NO_ACCOUNT` is open. */
  async watchAgent(check: () => readonly CheckResult[]): Promise<void> {
    this.#checkAgent = check;
    await this.#evaluateAgent();
  }

  /** Resolves the alerts of an account that was removed from the configuration, and commits the change. Never rejects. */
  async remove(account: string): Promise<void> {
    const entry = this.#entries.get(account);
    if (!entry) return;
    const { clock, log, tracer } = this.#deps;
    await entry.loop.close();
    await createAlerts({ alerts: entry.alerts, rules: [], facts: NO_FACTS, clock, log, tracer })();
    // The logs of sent alerts suffice to send the resolved notifications.
    this.#entries.delete(account);
  }

  /** Loop bodies that evaluate the accounts. They never reject. */
  get evaluations(): readonly ((signal: AbortSignal) => Promise<void>)[] {
    return [...this.#entries.values()].map(entry => () => entry.evaluate());
  }

  /** Returns the state of each firing or unknown rule about the agent or the account. */
  states(account: string): ReadonlyMap<string, 'firing' | 'unknown'> {
    const all = [NO_ACCOUNT, account].map(name => this.#entries.get(name)?.alerts.states());
    return new Map(all.flatMap(states => [...(states ?? [])]));
  }

  /** Returns the metrics of an account's alerts and problems. */
  sourcesOf(account: string): readonly Source[] {
    const entry = this.#entries.get(account);
    if (!entry) return [];
    const { alerts, problems } = entry.sources;
    return this.#config.alerts.enabled ? [alerts, problems] : [problems];
  }

  get sources(): readonly Source[] {
    const entry = this.#entries.get(NO_ACCOUNT);
    return [...this.sending.sources, ...(entry ? [entry.sources.problems] : [])];
  }

  /** Returns the alerts about one account; by default, about the agent and all configured accounts. */
  alerts(account?: string): readonly ShownAlert[] {
    const names = account === undefined ? [NO_ACCOUNT, ...namesOf(this.#config)] : [account];
    return names.flatMap(name =>
      this.#alertsOf(name)
        .filter(({ isUnsent }) => !isUnsent)
        .map(toShown),
    );
  }

  /** Returns the pending and firing problems of an account or of the agent at the last evaluation, even if they are not sent. */
  problems(account: string): readonly ProblemState[] {
    return this.#alertsOf(account).flatMap(toProblemState);
  }

  #alertsOf(account: string): readonly Alert[] {
    return [...(this.#entries.get(account)?.alerts.current().alerts.values() ?? [])];
  }

  async stop(): Promise<void> {
    const sending = this.sending.stop();
    await Promise.all([sending, ...[...this.#entries.values()].map(({ loop }) => loop.close())]);
  }

  async close(): Promise<void> {
    await this.stop();
    await this.sending.close();
    await Promise.all([...this.#entries.values()].map(entry => this.#save(entry)));
  }

  #builtinRules(about: 'account' | 'agent'): readonly EvaluatedRule[] {
    const { alerts, server } = this.#config;
    return builtinRules(alerts, about, server.externalUrl);
  }

  async #evaluateAgent(): Promise<void> {
    const check = this.#checkAgent;
    const entry = this.#entries.get(NO_ACCOUNT);
    if (!check || !entry) return;
    await this.#switch(entry, { rules: this.#builtinRules('agent'), check, facts: NO_FACTS });
  }

  async #switch(entry: Entry, data: Pick<AlertsDeps, 'rules' | 'check' | 'facts' | 'history'>): Promise<void> {
    const { clock, log, tracer } = this.#deps;
    const { alerts } = entry;
    const { rules } = data;
    const known = new Set(entry.rules.map(this.#identity));
    const isNew = (rule: EvaluatedRule) => !rule.isUnsent && !known.has(this.#identity(rule));
    alerts.setUnknown(rules.filter(isNew).flatMap(ruleNames));
    entry.rules = rules;
    entry.evaluate = createAlerts({ alerts, ...data, clock, log, tracer });
    await this.#startEvaluation(entry);
  }

  async #openStates(account: string): Promise<void> {
    if (this.#entries.has(account)) return;
    if (account !== NO_ACCOUNT && !namesOf(this.#config).includes(account)) return;
    const { store, log, clock } = this.#deps;
    const { mayNotify } = this.sending;
    const alerts = await openAccountAlerts({ store, mayNotify, silences: this.#silences, log, account });
    const configured = () => entry.rules.flatMap(({ name, kind }) => (kind === undefined ? name : []));
    const entry: Entry = {
      alerts,
      loop: createLoopSlot(this.#deps),
      rules: [],
      sources: {
        alerts: alertsSource(account, configured, () => sentOf(alerts.current())),
        problems: problemsSource(account || undefined, alerts.current, clock.now),
      },
      evaluate: async () => undefined,
    };
    this.#entries.set(account, entry);
  }

  async #save(entry: Entry | undefined): Promise<void> {
    try {
      await entry?.alerts.save();
    } catch (error) {
      if (isNotHeld(error)) return;
      this.#deps.log.warn({ error: String(error) }, 'the latest alert changes could not be stored');
    }
  }

  /** Whether no states of the account remain to be loaded: an alert that has no state has then ended. */
  #isKnown(account: string): boolean {
    const isConfigured = account === NO_ACCOUNT || namesOf(this.#config).includes(account);
    return !this.#config.alerts.enabled || !isConfigured || this.#entries.has(account);
  }

  async #startEvaluation(entry: Entry): Promise<void> {
    if (!this.sending.isStarted) return;
    const { evaluateEvery: every } = this.#config.alerts;
    // Evaluating a thousand accounts at once would block the event loop.
    const firstDelay = every * this.#deps.random();
    await entry.loop.run(entry, { every, firstDelay, body: () => entry.evaluate() });
  }
}
