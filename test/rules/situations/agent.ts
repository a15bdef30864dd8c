import { collectorSource } from '../../../src/collectors/collector.ts';
import { accountPlan, type Collector, collectors, type ShownFacts } from '../../../src/collectors/index.ts';
import { Config } from '../../../src/config/schema.ts';
import { Recorder } from '../../../src/history/recorder.ts';
import { alertingFamilies } from '../../../src/metrics/alerting.ts';
import { type AccountMeter, createAccountMeter } from '../../../src/metrics/own.ts';
import type { AutoCancelNumbers } from '../../../src/model/journal.ts';
import { Alerting, type EvaluatedAccount } from '../../../src/rules/alerting.ts';
import { checkAccount } from '../../../src/rules/checks/run.ts';
import {
  accountStatus,
  type CollectorState,
  createCollectorState,
  type Freshness,
} from '../../../src/scheduler/board.ts';
import { checkInputAt, type StatusSettings, type Viewed } from '../../../src/status/account.ts';
import { createAccountSource } from '../../../src/status/account-metrics.ts';
import { createSampling } from '../../../src/status/recording.ts';
import { createMemoryStore } from '../../../src/store/memory.ts';
import type { Store } from '../../../src/store/store.ts';
import { createTestLog } from '../../support/silent.ts';
import { BUDGET, type Input, type Name } from './course.ts';
import { type Facts, START } from './service.ts';
import { type Situation, within } from './situation.ts';

const never = new AbortController().signal;

/** What outlives a process. */
export interface Kept {
  readonly store: Store;
  freshness: Readonly<Record<string, Readonly<Record<string, Freshness>>>>;
  committed: Facts | undefined;
  isTokenRejected: boolean | undefined;
}

export const emptyStore = (): Kept => ({
  store: createMemoryStore(),
  freshness: {},
  committed: undefined,
  isTokenRejected: undefined,
});

export interface SimulatedClock {
  now(): number;
  monotonic(): number;
  sleep(): Promise<undefined>;
}

const config = Config.parse({ accounts: [{ name: 'a', baseUrl: 'http://127.0.0.1:1', token: 'x' }] });
const [settings] = config.accounts as unknown as [StatusSettings];

type Kind = Pick<Collector, 'name' | 'families' | 'auxiliary' | 'rounds'>;
const kinds: readonly Kind[] = [
  ...collectors.map(kind => ({ ...kind, rounds: kind.rounds(kind.options.parse({})) })),
  { ...accountPlan, rounds: accountPlan.rounds({ every: 1_800_000 }) },
];

const tracer = { span: (_name: string, _of: object, work: (span: object) => unknown) => work({}), headers: () => ({}) };

/** A reported problem. */
export interface Reported {
  readonly kind: string;
  readonly severity: string;
  readonly subject: string | undefined;
  readonly text: string;
}

/**
 * One process of the agent without its requests: facts of the collectors, freshness, history, checks and alert states of one
 * account are real. At its start, it has read nothing.
 */
export class Agent {
  readonly #situation: Situation;
  readonly #kept: Kept;
  readonly #clock: SimulatedClock;
  readonly #log = createTestLog();
  readonly #states = new Map<string, CollectorState>();
  readonly #meter: AccountMeter = createAccountMeter({
    requests: ['ok', 'rate_limited'].map(outcome => ({ endpoint: 'dlq', outcome })),
    bytes: [],
    collectors: ['flow_control', 'dlq', 'events'],
  });
  readonly #alerting: Alerting;
  #history: Recorder | undefined;
  #sample: () => Promise<void> = async () => undefined;
  #minute: number;

  private constructor(situation: Situation, kept: Kept, clock: SimulatedClock, minute: number) {
    this.#situation = situation;
    this.#kept = kept;
    this.#clock = clock;
    this.#minute = minute;
    const deps = { env: {}, store: kept.store, clock, random: () => 0, log: this.#log, tracer, accounts: () => [] };
    this.#alerting = new Alerting(config, deps as unknown as ConstructorParameters<typeof Alerting>[1]);
  }

  static async start(situation: Situation, kept: Kept, clock: SimulatedClock, minute: number): Promise<Agent> {
    const agent = new Agent(situation, kept, clock, minute);
    await agent.#open();
    return agent;
  }

  async #open(): Promise<void> {
    const { store, freshness, committed } = this.#kept;
    const [clock, log, states] = [this.#clock, this.#log, this.#states];
    const sources = kinds.map(kind => {
      const { name: collector, auxiliary, rounds } = kind;
      const which = { account: 'a', collector, auxiliary, restored: freshness[collector] };
      const state = createCollectorState(which, rounds, config.staleness, clock);
      state.committed(committed?.[collector as keyof Facts]);
      states.set(collector, state);
      return collectorSource('a', kind, state.shown);
    });
    const history = await Recorder.open({ account: 'a', store, clock, log });
    history.use({ keep: config.store.history.keep, maxBytes: 1e9 });
    this.#history = history;
    const viewed = this.#viewed(history);
    const { shown, status, isTokenKnown, isTokenRejected } = viewed.account;
    const client = {
      budget: { remaining: () => viewed.account.budgetRemaining() ?? 0 },
      meter: this.#meter,
      isTokenRejected,
      serviceClock: viewed.account.serviceClock,
    };
    const own = createAccountSource({
      settings: () => viewed.settings,
      client,
      status,
      plan: () => shown().account?.now,
    });
    const all = [...sources, own];
    const account = { name: 'a', state: (name: string) => states.get(name), status, shown, isTokenKnown, history };
    const checkInput = () => checkInputAt(viewed, clock.now());
    const sampling = { config, sources: all, log, clock, checkInput };
    this.#sample = createSampling(account, sampling);
    await this.#alerting.open('');
    await this.#alerting.open('a');
    await this.#alerting.evaluate(account as EvaluatedAccount, [], () => checkAccount(checkInput()));
  }

  #value(key: string, minute = this.#minute): number | undefined {
    return this.#situation.input[key as keyof Input]?.(minute);
  }

  #valuesOf(name: Name): (readonly [subject: string, value: number])[] {
    return Object.keys(this.#situation.input).flatMap(key => {
      const value = key.startsWith(`${name} `) ? this.#value(key) : undefined;
      return value === undefined ? [] : [[key.slice(name.length + 1), value] as const];
    });
  }

  /** Returns the input of the checks, with the values of the current minute. */
  #viewed(history: Recorder): Pick<Viewed, 'account' | 'autoCancel'> & { readonly settings: StatusSettings } {
    const [states, kept] = [this.#states, this.#kept];
    const skew = () => -1000 * (this.#situation.clock?.(this.#minute) ?? 0);
    const settingsNow = (): StatusSettings => ({
      ...settings,
      retention: { ...settings.retention, dlq: 1000 * (this.#value('retention') ?? 7 * 86_400) },
      budget: { ...settings.budget, requestsPerDay: BUDGET },
      objectives: { ...settings.objectives, ...this.#situation.objectives },
    });
    return {
      account: {
        name: 'a',
        shown: () => Object.fromEntries([...states].map(([name, state]) => [name, state.shown()])) as ShownFacts,
        status: () => accountStatus('a', [...states.values()]),
        isTokenKnown: () => kept.isTokenRejected !== undefined,
        isTokenRejected: () => kept.isTokenRejected,
        meter: this.#meter,
        budgetRemaining: () => this.#value('budget') ?? BUDGET,
        history,
        serviceClock: { at: time => time + skew(), skew },
      },
      autoCancel: (): AutoCancelNumbers => ({
        candidates: new Map(),
        actions: [],
        skips: [],
        plans: new Map(),
        breakers: new Map(this.#valuesOf('breaker').map(([name, isOpen]) => [name, isOpen === 1])),
        isPaused: false,
        unresolved: new Map(this.#valuesOf('unresolved').map(([name, seconds]) => [name, START + 1000 * seconds])),
        budget: [],
      }),
      get settings() {
        return settingsNow();
      },
    };
  }

  /** Runs all rounds. `before`: minute of the last reads; `isWhole`: whether they reach the end of the log. */
  read(minute: number, facts: Facts, before: number, isWhole: boolean): void {
    this.#minute = minute;
    this.#count('requests', before, (outcome, by) => this.#meter.requests.inc({ endpoint: 'dlq', outcome }, by));
    this.#count('rejected', before, (collector, by) => this.#meter.rowsRejected.inc({ collector }, by));
    if (this.#value('token') === 1) this.#kept.isTokenRejected = true;
    for (const { name, rounds } of kinds) {
      if (isWhole || name !== 'events') {
        for (const round of Object.keys(rounds)) this.#run(name as keyof Facts, round, facts);
      } else if (this.#kept.committed) this.#commit('events', facts);
    }
  }

  #count(name: Name, before: number, count: (subject: string, by: number) => void): void {
    for (const [subject, value] of this.#valuesOf(name)) {
      const by = value - (this.#value(`${name} ${subject}`, before) ?? 0);
      if (by > 0) count(subject, by);
    }
  }

  #run(collector: keyof Facts, round: string, facts: Facts): void {
    const state = this.#states.get(collector);
    const failure = this.#failureOf(collector, round);
    state?.started(round);
    if (failure) {
      state?.failed(round, { ...failure, durationSeconds: 0.1, complete: false });
      return;
    }
    const partial = within(this.#situation.unreadable, this.#minute) || this.#rises(`rejected ${collector}`);
    state?.observed(round, { at: this.#clock.now(), facts: facts[collector], partial });
    this.#commit(collector, facts);
    state?.succeeded(round, { durationSeconds: 0.1, partial });
    if (collector !== 'account') this.#kept.isTokenRejected = false;
  }

  #commit(collector: keyof Facts, facts: Facts): void {
    this.#states.get(collector)?.committed(facts[collector]);
    this.#kept.committed = { ...(this.#kept.committed ?? facts), [collector]: facts[collector] };
  }

  #failureOf(collector: string, round: string): { readonly reason: string; readonly message: string } | undefined {
    if (collector === 'account') return undefined;
    if (this.#value('token') === 1) return { reason: 'unauthorized', message: 'status 401' };
    const isDark = this.#situation.dark?.some(
      ([from, to, only = collector]) =>
        within([[from, to]], this.#minute) && [collector, `${collector} ${round}`].includes(only),
    );
    return isDark ? { reason: 'server', message: 'status 503' } : undefined;
  }

  #rises(key: string): boolean {
    return (this.#value(key) ?? 0) > (this.#value(key, this.#minute - 1) ?? 0);
  }

  /** Evaluates the alerts, then records a sample and saves the state. */
  async evaluate(minute: number): Promise<void> {
    this.#minute = minute;
    for (const evaluate of this.#alerting.evaluations) await evaluate(never);
    await this.#sample();
    const changes = this.#history?.unsaved() ?? [];
    await this.#kept.store.commit('a', changes);
    this.#history?.saved(changes);
    this.#kept.freshness = Object.fromEntries([...this.#states].map(([name, state]) => [name, state.freshness()]));
    const bug = this.#log.lines.find(({ message }) => message === 'bug');
    if (bug) throw new Error(JSON.stringify(bug.fields));
  }

  /** Returns the problems that `delivery_problem` exposes. */
  get problems(): readonly Reported[] {
    const exposed = this.#alerting
      .sourcesOf('a')
      .flatMap(source => [...(source.samples().get(alertingFamilies.problem.name) ?? [])])
      .filter(({ value }) => value === 1);
    const firing = this.#alerting.problems('a').filter(({ isFiring }) => isFiring);
    for (const { kind, subject } of firing) {
      const isExposed = exposed.some(({ labels }) => labels.kind === kind && (labels.subject ?? null) === subject);
      if (!isExposed) throw new Error(`delivery_problem lacks ${kind} ${subject}`);
    }
    return firing.map(({ kind, severity, subject, text }) => ({ kind, severity, subject: subject ?? undefined, text }));
  }
}
