/** Alerting components whose clock, store and receivers are controlled by the test. */
import type { Grouping } from '../../src/notify/group.ts';
import type { Notice } from '../../src/notify/notice.ts';
import type { Receiver, SendResult } from '../../src/notify/notifiers/receiver.ts';
import { createOutbox, type Outbox } from '../../src/notify/outbox.ts';
import type { AlertRule } from '../../src/rules/options.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import type { Store } from '../../src/store/store.ts';
import { createTestLog } from '../support/silent.ts';

export const SECOND = 1000;
export const MINUTE = 60_000;
export const HOUR = 60 * MINUTE;
export const never = new AbortController().signal;

export const ACCEPTED: SendResult = { kind: 'accepted' };
export const REFUSED: SendResult = { kind: 'refused', why: 'status 400' };
export const DOWN: SendResult = { kind: 'failed', why: 'ECONNREFUSED', isDown: true };
export const FAILED: SendResult = { kind: 'failed', why: 'status 500', isDown: false };

/** Formats notices, for example `firing a, resolved b`. */
export const short = (notices: readonly Notice[]) =>
  notices.map(({ status, labels }) => `${status} ${labels.x ?? labels.alertname}`).join(', ');

export interface TestReceiver extends Receiver {
  /** Formatted notices of each request. */
  readonly sent: string[];
  readonly notices: Notice[];
  /** Idempotency keys of groups, one per request. */
  readonly keys: string[];
  /** Returns the result of a request. */
  answer: (notices: readonly Notice[]) => SendResult | Promise<SendResult>;
}

export function createReceiver(
  wants: Receiver['wants'],
  notifier = 'hook',
  member = 0,
  grouping?: Grouping,
): TestReceiver {
  const receiver: TestReceiver = {
    notifier,
    member,
    wants,
    grouping,
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

export interface OutboxScene {
  readonly clock: ReturnType<typeof createClock>;
  readonly store: ReturnType<typeof createStore>;
  readonly log: ReturnType<typeof createTestLog>;
  readonly counts: Record<string, number>;
  outbox(): Outbox;
  /** Commits notices in a transaction of account a. */
  post(...notices: Notice[]): Promise<void>;
  /** Advances the clock by `ms` and sends due notices to every receiver. */
  deliver(ms?: number): Promise<void>;
  /** Starts a new process with the same store. */
  restart(receivers?: readonly Receiver[]): Promise<void>;
  /** Returns the number of queued notices and groups in the store. */
  rows(): Promise<number>;
}

/** Creates an outbox with these receivers. `firing`: returns the alerts that currently fire. */
export async function createOutboxScene(
  receivers: readonly Receiver[],
  firing: () => readonly Notice[] = () => [],
): Promise<OutboxScene> {
  const [clock, store, log, { counts, notifications }] = [
    createClock(),
    createStore(),
    createTestLog(),
    createCounts(),
  ];
  async function open(receivers: readonly Receiver[]): Promise<Outbox> {
    const outbox = createOutbox({
      store,
      mayNotify: () => true,
      receivers,
      firing,
      notifications,
      clock,
      random: () => 1,
      log,
    });
    for (const account of ['', 'a', 'b']) await outbox.open(account);
    return outbox;
  }
  let outbox = await open(receivers);
  return {
    clock,
    store,
    log,
    counts,
    outbox: () => outbox,
    async post(...notices) {
      const posting = outbox.post('a', notices, () => true);
      await store.commit('a', posting.changes());
      posting.send();
    },
    async deliver(ms = 0) {
      clock.pass(ms);
      await Promise.all(outbox.senders.map(send => send(never)));
    },
    async restart(others = receivers) {
      clock.restart();
      outbox = await open(others);
    },
    async rows() {
      const all = await Promise.all([
        ...['a', 'b'].map(account => store.scan(account, 'alerts/outbox/')),
        store.scan('', 'alerts/grouped/'),
      ]);
      return all.reduce((sum, { size }) => sum + size, 0);
    },
  };
}
