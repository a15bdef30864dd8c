import type { Clock } from '../kit/clock.ts';
import { identityOf } from '../kit/identity.ts';
import type { Log } from '../kit/log.ts';
import type { Tracer } from '../kit/tracer.ts';
import { createNotificationsCounter, type NotificationCount, type NotificationsCounter } from '../metrics/alerting.ts';
import type { Source } from '../metrics/family.ts';
import { createAgentHeartbeat, type HeartbeatAccount } from '../notify/agent-heartbeat.ts';
import type { Notice } from '../notify/notice.ts';
import { SEND_OUTCOMES } from '../notify/notifiers/receiver.ts';
import { HEARTBEAT, type HeartbeatOptions } from '../notify/options.ts';
import { createOutbox, type Outbox } from '../notify/outbox.ts';
import type { MayNotify } from '../notify/receiver-queue.ts';
import { createReceivers, type Receivers, type ReceiversSettings } from '../notify/receivers.ts';
import { createRepeating } from '../notify/repeating.ts';
import type { Leadership } from '../replicas/leadership.ts';
import { createLoops, type Loops } from '../scheduler/loop.ts';
import { createLoopSlot, type LoopSlot } from '../scheduler/loop-slot.ts';
import type { Store } from '../store/store.ts';
import { createPost, type ReceiverClient } from '../upstream/post.ts';

export interface SendingSettings extends ReceiversSettings {
  readonly accounts: readonly { readonly name: string }[];
  readonly heartbeat: HeartbeatOptions | null;
}

export interface SendingDeps {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly store: Store;
  /** Undefined if no other process uses the store. */
  readonly leadership?: Pick<Leadership, 'remaining' | 'confirm'> | undefined;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Log;
  readonly tracer: Tracer;
  accounts(): readonly HeartbeatAccount[];
  /** Returns the notices of firing and recently resolved alerts in this process, except silenced ones. */
  notices(): readonly Notice[];
}

type Body = (signal: AbortSignal) => Promise<void>;

/** Interval at which senders check for due notifications (ms). A check is cheap if none is due. */
const SEND_EVERY = 1000;
/** Maximum delay of the first heartbeat after startup (ms). */
const FIRST_HEARTBEAT = 10_000;

/** Sends the notifications of alerts. Owns the receivers, their queues and loops, and the heartbeat. */
export class Sending {
  readonly #deps: SendingDeps;
  readonly #client: ReceiverClient = createPost();
  readonly #counter: NotificationsCounter;
  readonly outbox: Outbox;
  /** While the database is unavailable, the leader sends: a duplicate alert is better than none. */
  readonly mayNotify: MayNotify;
  readonly #heartbeat: LoopSlot;
  #config: SendingSettings;
  #receivers: Receivers;
  #repeating: readonly Body[];
  #loops: Loops | undefined;
  /** Prevents a concurrent open or reload from starting loops after `stop`. */
  #isStopped = false;
  #source: Source;

  /** Throws if a secret of a notifier is missing. */
  constructor(config: SendingSettings, deps: SendingDeps) {
    this.#deps = deps;
    this.#config = config;
    this.#counter = createNotificationsCounter(SEND_OUTCOMES);
    this.#heartbeat = createLoopSlot(deps);
    this.#receivers = this.prepare(config);
    this.#source = this.#counter.sourceOf(this.#notifiers());
    const { leadership, store, clock, random, log, notices } = deps;
    this.mayNotify = () => (!leadership || leadership.remaining() > 0 ? true : leadership.confirm());
    this.outbox = createOutbox({
      notifications: this.#counter,
      store,
      mayNotify: this.mayNotify,
      clock,
      random,
      log,
      receivers: this.#receivers.all,
      firing: () => notices().filter(({ status }) => status === 'firing'),
    });
    this.#repeating = this.#createRepeating();
  }

  /** Creates the receivers of a configuration, for `use`. Throws if a secret is missing. */
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
      this.#receivers = receivers;
      this.#repeating = this.#createRepeating();
      await this.#switch();
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
  get senders(): readonly Body[] {
    return [...this.outbox.senders, ...this.#repeating];
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

  async #switch(): Promise<void> {
    try {
      await this.outbox.use(this.#receivers.all);
    } catch (error) {
      this.#deps.log.warn({ error: String(error) }, 'failed to delete rows of removed notifiers from the store');
    }
  }

  /** Creates loop bodies for receivers that want the current state of all alerts. */
  #createRepeating(): readonly Body[] {
    const { mayNotify } = this;
    const { clock, random, log, notices } = this.#deps;
    const common = { notifications: this.#counter, notices, mayNotify, clock, random, log };
    const receivers = this.#receivers.all.filter(({ wants }) => wants === 'state');
    return receivers.map(receiver => createRepeating({ ...common, receiver }));
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
    const body = createAgentHeartbeat({
      ...this.#deps,
      config: this.#config,
      configured: () => this.#config.accounts.map(({ name }) => name),
      notifications: this.#counter,
      get: this.#client.get,
    });
    // Jitter: agents that start together must not send at the same time.
    const firstDelay = Math.min(every, FIRST_HEARTBEAT) * this.#deps.random();
    await this.#heartbeat.run(identityOf(heartbeat), body && { every, firstDelay, body });
  }

  #notifiers(): readonly string[] {
    const { alerts, heartbeat } = this.#config;
    return [...alerts.notifiers.map(({ name }) => name), ...(heartbeat ? [HEARTBEAT] : [])];
  }
}
