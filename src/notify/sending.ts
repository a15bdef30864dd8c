import { identityOf } from '../kit/identity.ts';
import type { Runtime } from '../kit/runtime.ts';
import { createNotificationsCounter, type NotificationCount, type NotificationsCounter } from '../metrics/alerting.ts';
import type { Source } from '../metrics/family.ts';
import type { Leadership } from '../replicas/leadership.ts';
import { createLoops, type Loops } from '../scheduler/loop.ts';
import { createLoopSlot, type LoopSlot } from '../scheduler/loop-slot.ts';
import { NO_ACCOUNT, type Store } from '../store/store.ts';
import { createPost, type ReceiverClient } from '../upstream/post.ts';
import type { AlertStates } from './compare.ts';
import { Delivery, type MayNotify } from './delivery.ts';
import { createHeartbeat, type HeartbeatAccount } from './heartbeat.ts';
import { type Receiver, SEND_OUTCOMES } from './notifiers/receiver.ts';
import { HEARTBEAT, type HeartbeatOptions } from './options.ts';
import { createReceivers, type Receivers, type ReceiversSettings } from './receivers.ts';
import { type NoticeSource, SENT } from './sent-log.ts';

export interface SendingSettings extends ReceiversSettings {
  readonly accounts: readonly { readonly name: string }[];
  readonly heartbeat: HeartbeatOptions | null;
}

export interface SendingDeps extends Pick<Runtime, 'clock' | 'random' | 'log' | 'tracer'> {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly store: Store;
  /** Undefined if no other process uses the store. */
  readonly leadership?: Pick<Leadership, 'remaining' | 'confirm'> | undefined;
  accounts(): readonly HeartbeatAccount[];
  readonly states: AlertStates;
}

/** Interval at which senders check for due notifications (ms). A check is cheap if none is due. */
const SEND_EVERY = 1000;
/** Maximum delay of the first heartbeat after startup (ms). */
const FIRST_HEARTBEAT = 10_000;

/** Sends alerts and the notices of journals. Owns a delivery for each receiver, their loops, and the heartbeat. */
export class Sending {
  readonly #deps: SendingDeps;
  readonly #client: ReceiverClient = createPost();
  readonly #counter: NotificationsCounter;
  /** While the database is unavailable, the leader sends: a duplicate alert is better than none. */
  readonly mayNotify: MayNotify;
  readonly #heartbeat: LoopSlot;
  readonly #sources = new Set<NoticeSource>();
  #config: SendingSettings;
  #receivers: Receivers;
  #deliveries: readonly Delivery[] = [];
  /** Whether the logs of sent alerts are loaded. */
  #isOpen = false;
  #loops: Loops | undefined;
  /** Prevents a concurrent open or reload from starting loops after `stop`. */
  #isStopped = false;
  #source: Source;

  /** Throws if the variable of a header is missing. */
  constructor(config: SendingSettings, deps: SendingDeps) {
    this.#deps = deps;
    this.#config = config;
    this.#counter = createNotificationsCounter(SEND_OUTCOMES);
    this.#heartbeat = createLoopSlot(deps);
    this.#source = this.#counter.sourceOf(this.#notifiers());
    const { leadership } = deps;
    this.mayNotify = () => (!leadership || leadership.remaining() > 0 ? true : leadership.confirm());
    this.#receivers = this.prepare(config);
    this.#deliveries = this.#receivers.all.map(receiver => this.#createDelivery(receiver));
  }

  /**
   * Deletes the account's rows for removed receivers. For `NO_ACCOUNT`, first reads the logs of sent alerts, before
   * any notification is sent. Rejects with StoreError.
   */
  async open(account: string): Promise<void> {
    const { store } = this.#deps;
    if (account === NO_ACCOUNT && !this.#isOpen) {
      const rows = await store.scan(account, SENT);
      for (const delivery of this.#deliveries) delivery.load(rows);
      this.#isOpen = true;
    }
    await this.#deleteUnused(account);
  }

  /**
   * Sends the notices of a journal. A new receiver's cursor starts at the end of the journal. Resolves when the cursors are
   * stored: lines after them are sent at least once. Rejects with StoreError.
   */
  async watch(source: NoticeSource): Promise<void> {
    for (const delivery of this.#deliveries) await delivery.watch(source);
    this.#sources.add(source);
  }

  unwatch(source: NoticeSource): void {
    this.#sources.delete(source);
    for (const delivery of this.#deliveries) delivery.unwatch(source);
  }

  /** Creates the receivers of a configuration, for `use`. Throws if the variable of a header is missing. */
  prepare(config: SendingSettings): Receivers {
    return createReceivers({ ...this.#deps, config, post: this.#client.post }, this.#receivers);
  }

  /** Switches to the receivers and the heartbeat of a configuration. Never rejects. */
  async use(config: SendingSettings, receivers: Receivers): Promise<void> {
    this.#config = config;
    this.#source = this.#counter.sourceOf(this.#notifiers());
    const wasStarted = this.isStarted;
    if (receivers !== this.#receivers) {
      await this.#loops?.close();
      await this.#switchTo(receivers);
      if (wasStarted) this.#startLoops();
    }
    if (wasStarted) await this.#startHeartbeat();
  }

  start(): void {
    this.#startLoops();
    void this.#startHeartbeat();
  }

  get isStarted(): boolean {
    return this.#loops !== undefined && !this.#isStopped;
  }

  /** Loop bodies that send notifications. They never reject. */
  get senders(): readonly ((signal: AbortSignal) => Promise<void>)[] {
    return this.#deliveries.map(({ run }) => run);
  }

  get sources(): readonly Source[] {
    return this.#notifiers().length > 0 ? [this.#source] : [];
  }

  /** Returns notification counts of the configured notifiers since the process started. */
  notifications(): readonly NotificationCount[] {
    return this.#counter.countsOf(this.#notifiers());
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all([this.#loops?.close(), this.#heartbeat.close()]);
  }

  /** Closes the connections to receivers. Must be called after `stop`. */
  close(): Promise<void> {
    return this.#client.close();
  }

  #createDelivery(receiver: Receiver): Delivery {
    return new Delivery(receiver, { ...this.#deps, mayNotify: this.mayNotify, notifications: this.#counter });
  }

  /** Replaces the receivers, once their loops have ended. A receiver keeps the log of its notifier and member. */
  async #switchTo(receivers: Receivers): Promise<void> {
    const before = this.#deliveries;
    this.#receivers = receivers;
    this.#deliveries = receivers.all.map(receiver => {
      const known = before.find(delivery => delivery.isFor(receiver));
      known?.use(receiver);
      return known ?? this.#createDelivery(receiver);
    });
    try {
      const accounts = [NO_ACCOUNT, ...new Set([...this.#sources].map(({ account }) => account))];
      for (const account of this.#isOpen ? accounts : []) await this.#deleteUnused(account);
    } catch (error) {
      this.#deps.log.warn({ error: String(error) }, 'failed to delete rows of removed notifiers from the store');
    }
    for (const delivery of this.#deliveries.filter(each => !before.includes(each))) {
      if (this.#isOpen) delivery.load(new Map());
      for (const source of this.#sources) await delivery.watch(source).catch(() => undefined);
    }
  }

  /** Deletes an account's rows for removed receivers. Rejects with StoreError. */
  async #deleteUnused(account: string): Promise<void> {
    const { store } = this.#deps;
    const names = new Set(this.#receivers.all.map(({ notifier, member }) => `${notifier}/${member}`));
    const isUnused = (key: string) => {
      const [, kind = '', notifier, member] = key.split('/');
      return ['log', 'cursor'].includes(kind) && !names.has(`${notifier}/${member}`);
    };
    const rows = await store.sizes(account, 'alerts/');
    const changes = [...rows.keys()].filter(isUnused).map(key => ({ key, value: null }));
    if (changes.length > 0) await store.commit(account, changes);
  }

  #startLoops(): void {
    if (this.#isStopped) return;
    this.#loops = createLoops(this.#deps);
    for (const send of this.senders) void this.#loops.start(SEND_EVERY, SEND_EVERY, send);
  }

  async #startHeartbeat(): Promise<void> {
    const { heartbeat } = this.#config;
    if (!heartbeat) return this.#heartbeat.run(undefined, undefined);
    const { every } = heartbeat;
    const body = createHeartbeat({
      ...this.#deps,
      heartbeat,
      configured: () => this.#config.accounts.map(({ name }) => name),
      notifications: this.#counter,
      get: this.#client.get,
    });
    // Jitter: agents that start together must not send at the same time.
    const firstDelay = Math.min(every, FIRST_HEARTBEAT) * this.#deps.random();
    await this.#heartbeat.run(identityOf(heartbeat), { every, firstDelay, body });
  }

  #notifiers(): readonly string[] {
    const { alerts, heartbeat } = this.#config;
    return [...alerts.notifiers.map(({ name }) => name), ...(heartbeat ? [HEARTBEAT] : [])];
  }
}
