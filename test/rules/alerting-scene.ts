/** Alerting components with a clock, a store and receivers that the test controls. */
import { Delivery } from '../../src/notify/delivery.ts';
import type { Grouping, Notice } from '../../src/notify/notice.ts';
import type { Receiver, SendResult } from '../../src/notify/notifiers/receiver.ts';
import { SENT } from '../../src/notify/sent-log.ts';
import type { ConditionResult } from '../../src/rules/evaluate-condition.ts';
import type { RuleResult } from '../../src/rules/evaluation.ts';
import type { AlertRule } from '../../src/rules/options.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import type { Store } from '../../src/store/store.ts';
import { createTestLog } from '../support/silent.ts';

export const SECOND = 1000;
export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;
export const never = new AbortController().signal;

export const ACCEPTED: SendResult = { kind: 'ok', answer: 'status 200' };
/** A refusal of the content, and one of every notification. */
export const REFUSED: SendResult = { kind: 'refused', answer: 'status 400', isWhole: false };
export const REJECTED: SendResult = { kind: 'refused', answer: 'status 401', isWhole: true };
export const DOWN: SendResult = { kind: 'retry', answer: 'ECONNREFUSED', isDown: true, isUnsent: true };
export const FAILED: SendResult = { kind: 'retry', answer: 'status 500', isDown: false, isUnsent: true };

/** Formats notices, for example `firing a, resolved b`. */
export const short = (notices: readonly Notice[]) =>
  notices.map(({ status, labels }) => `${status} ${labels.x ?? labels.alertname}`).join(', ');

export interface TestReceiver extends Receiver {
  /** Formatted notices of each request. */
  readonly sent: string[];
  readonly notices: Notice[];
  /** Address and secret. */
  secret: string;
  selects: Receiver['selects'];
  /** Idempotency keys of groups, one per request. */
  readonly keys: string[];
  /** Returns the result of a request. */
  answer: (notices: readonly Notice[]) => SendResult | Promise<SendResult>;
}

/** Creates a receiver of all alerts. `state`: like an Alertmanager. Without `grouping`, each alert is sent alone and once. */
export function createReceiver(
  wants: 'state' | 'changes',
  notifier = 'hook',
  member = 0,
  grouping?: Grouping,
): TestReceiver {
  const isMerging = wants === 'state';
  const single = { by: ['...'], wait: 0, repeatEvery: 4 * HOUR };
  const receiver: TestReceiver = {
    notifier,
    member,
    grouping: isMerging ? { by: ['account'], wait: 0, repeatEvery: MINUTE } : (grouping ?? single),
    maxAlerts: isMerging ? 64 : 250,
    repeats: isMerging || grouping !== undefined,
    isMerging,
    selects: () => true,
    secret: 'a',
    identity: async () => receiver.secret,
    keys: [],
    sent: [],
    notices: [],
    answer: () => ACCEPTED,
    async send(notices, _signal, group) {
      if (group) receiver.keys.push(group.key);
      receiver.sent.push(short(notices));
      receiver.notices.push(...notices);
      return receiver.answer(notices);
    },
  };
  return receiver;
}

export function notice(x: string, more: Partial<Notice> = {}): Notice {
  return { status: 'firing', labels: { alertname: 'A', account: 'a', x }, annotations: {}, startsAt: 1, ...more };
}

export function createClock() {
  let [time, offset, bornAt] = [Date.UTC(2026, 5, 1), 0, 0];
  bornAt = time;
  return {
    now: () => time + offset,
    monotonic: () => time - bornAt,
    sleep: async () => undefined,
    pass(ms: number) {
      time += ms;
    },
    /** Steps the wall clock. The monotonic clock is unchanged. */
    set(ms: number) {
      offset += ms;
    },
    /** Resets the monotonic clock, as in a new process. */
    restart() {
      bornAt = time;
    },
  };
}

/** Creates a store that rejects commits while `isFull`. */
export function createStore(): Store & { isFull: boolean; commits: number } {
  const store = createMemoryStore();
  const own = {
    ...store,
    isFull: false,
    commits: 0,
    async commit(...args: Parameters<Store['commit']>) {
      if (own.isFull) throw new Error('disk full');
      own.commits += 1;
      await store.commit(...args);
    },
  };
  return own;
}

export function createCounts() {
  const counts: Record<string, number> = {};
  return {
    counts,
    notifications: {
      inc({ notifier, outcome }: { notifier: string; outcome: string }, by = 1) {
        counts[`${notifier} ${outcome}`] = (counts[`${notifier} ${outcome}`] ?? 0) + by;
      },
    },
  };
}

/** Dependency without silences. */
export const sendAll = { silences: { reasonFor: () => undefined } };

export const rule = (name: string, more: Partial<AlertRule> = {}): AlertRule => ({
  name,
  for: 0,
  keepFiringFor: 0,
  labels: {},
  annotations: {},
  when: { kind: 'above', metric: 'x', labels: {}, value: 0 },
  ...more,
});

/** Converts the result of a condition. `isInconclusive`: as in `AlertFacts`. */
export function ruleResult(
  result: ConditionResult,
  isInconclusive: (labels?: Readonly<Record<string, string>>) => boolean = () => false,
): RuleResult {
  if (result === 'unknown') return { listed: [], isOver: () => false };
  if ('atLeast' in result) return { listed: result.atLeast, isOver: () => false };
  return { listed: result, isOver: labels => !isInconclusive(labels) };
}

export interface DeliveryScene {
  readonly clock: ReturnType<typeof createClock>;
  readonly store: ReturnType<typeof createStore>;
  readonly log: ReturnType<typeof createTestLog>;
  readonly counts: Record<string, number>;
  /** Alert states by label x. */
  readonly states: Map<string, Notice>;
  /** Accounts without loaded states. */
  readonly unknown: Set<string>;
  /** Starts an episode of an alert. */
  begin(x: string, more?: Partial<Notice>): void;
  /** Resolves an alert. Its state stays until `forget`. */
  end(x: string): void;
  /** Advances the clock by `ms` and sends due notifications to every receiver. */
  deliver(ms?: number): Promise<void>;
  /** Starts a new process with the same store. */
  restart(receivers?: readonly Receiver[]): Promise<void>;
  /** Returns the deliveries, in the order of the receivers. */
  deliveries(): readonly Delivery[];
  /** Returns the stored log. */
  rows(): Promise<ReadonlyMap<string, string>>;
}

/** Creates deliveries to these receivers. `notices`: replaces `states`. */
export async function createDeliveryScene(
  receivers: readonly Receiver[],
  notices?: () => readonly Notice[],
): Promise<DeliveryScene> {
  const [clock, store, log, { counts, notifications }] = [
    createClock(),
    createStore(),
    createTestLog(),
    createCounts(),
  ];
  const states = new Map<string, Notice>();
  const unknown = new Set<string>();
  const rows = () => store.scan('', SENT);
  async function open(receivers: readonly Receiver[]): Promise<readonly Delivery[]> {
    const stored = await rows();
    return receivers.map(receiver => {
      const delivery = new Delivery(receiver, {
        states: {
          notices: notices ?? (() => [...states.values()].filter(({ labels }) => !unknown.has(labels.account ?? ''))),
          isKnown: account => !unknown.has(account),
        },
        store,
        mayNotify: () => true,
        notifications,
        clock,
        random: () => 1,
        log,
      });
      delivery.load(stored);
      return delivery;
    });
  }
  let deliveries = await open(receivers);
  let current = receivers;
  return {
    clock,
    store,
    log,
    counts,
    states,
    unknown,
    rows,
    deliveries: () => deliveries,
    begin: (x, more) => void states.set(x, notice(x, { startsAt: clock.now(), ...more })),
    end(x) {
      const one = states.get(x);
      if (one) states.set(x, { ...one, status: 'resolved', endsAt: clock.now(), isSuppressed: undefined });
    },
    async deliver(ms = 0) {
      clock.pass(ms);
      await Promise.all(deliveries.map(({ run }) => run(never)));
    },
    async restart(others = current) {
      clock.restart();
      current = others;
      deliveries = await open(others);
    },
  };
}
