import { createRetry, type Retry } from '../kit/backoff.ts';
import type { Counter } from '../kit/counter.ts';
import { hashedId } from '../kit/hash.ts';
import type { Runtime } from '../kit/runtime.ts';
import { StoreError } from '../store/errors.ts';
import type { Store } from '../store/store.ts';
import {
  type AlertStates,
  type ComparedGroup,
  type Comparison,
  compare,
  type DueRequest,
  type Item,
  split,
} from './compare.ts';
import { fingerprintOf, groupIds, type Labels, type Notice } from './notice.ts';
import type { Receiver, SendResult } from './notifiers/receiver.ts';
import { JournalCursors, type NoticeSource, SENT, type SentAlert, SentLog } from './sent-log.ts';

/** Returns whether this process may send. Called before each request. Returns a promise only if another process may lead. */
export type MayNotify = () => true | Promise<boolean>;

export interface DeliveryDeps extends Pick<Runtime, 'clock' | 'random' | 'log'> {
  readonly states: AlertStates;
  readonly store: Store;
  readonly mayNotify: MayNotify;
  readonly notifications: Counter<'notifier' | 'outcome'>;
}

type Failure = Pick<SendResult, 'answer'> & Partial<Pick<Extract<SendResult, { kind: 'retry' }>, 'isDown' | 'after'>>;

interface Refusal {
  readonly state: string;
  readonly identity: string | undefined;
  readonly at: number;
  /** Whether the receiver refuses only this content. Otherwise, it refuses every notification. */
  readonly isOwn: boolean;
}

const BACKOFF = { first: 1000, longest: 300_000 };

const toSent = ({ labels, startsAt, annotations: { summary } }: Notice, receiver: string): SentAlert => {
  return { labels, startsAt, summary, receiver };
};

const stateOf = ({ status, startsAt }: Notice) => `${status} ${startsAt}`;

/**
 * Brings one receiver to the latest state of the alerts, in stages: select, group, wait, compare with the log, send, log. What
 * to send is the difference between the alert states and the log, so there is no queue. Each pass starts from both again.
 *
 * | an alert is | when | next |
 * | --- | --- | --- |
 * | changed | its state differs from the log | sent after the group's wait; counted as dropped if it is resolved before that |
 * | logged | a request with it was accepted | repeated until it is resolved or gone, then changed |
 * | refused | the receiver rejected it in a separate request | changed again after `repeatEvery` or a new address or secret |
 */
export class Delivery {
  readonly #deps: DeliveryDeps;
  readonly #log: SentLog;
  readonly #journals: JournalCursors;
  #receiver: Receiver;
  #idOf: (labels: Labels) => string;
  #isLoaded = false;
  /** Last identity that could be read. */
  #identity: string | undefined;
  /** Retry state of the receiver, and retry states of groups by id. */
  readonly #down: Retry;
  readonly #retries = new Map<string, Retry>();
  /** End of a group's wait (monotonic). */
  readonly #dueAt = new Map<string, number>();
  /** Firing alerts that were never accepted. */
  readonly #unsent = new Map<string, Notice>();
  readonly #refused = new Map<string, Refusal>();
  /** Resolved alerts that are repeated to a merging receiver while their states exist: the receiver may have restarted. */
  readonly #resolved = new Map<string, number>();

  constructor(receiver: Receiver, deps: DeliveryDeps) {
    this.#deps = deps;
    this.#receiver = receiver;
    this.#idOf = groupIds(receiver.grouping);
    const { notifier, member } = receiver;
    this.#log = new SentLog(`${SENT}${notifier}/${member}/`, deps);
    this.#journals = new JournalCursors(`${notifier}/${member}`, {
      ...deps,
      drop: (notice, why) => this.#drop(notice, why),
    });
    this.#down = this.#createRetry();
  }

  isFor = ({ notifier, member }: Receiver): boolean =>
    notifier === this.#receiver.notifier && member === this.#receiver.member;

  /** Reads the receiver's log from the stored rows. `run` sends nothing before that. Throws StoreError. */
  load(rows: ReadonlyMap<string, string>): void {
    if (this.#isLoaded) return;
    this.#log.load(rows);
    this.#regroup();
    this.#isLoaded = true;
  }

  /** Switches to changed settings. Refused and failed notifications are due at once. */
  use(receiver: Receiver): void {
    this.#receiver = receiver;
    this.#regroup();
    this.#down.succeeded();
    this.#retries.clear();
    this.#refused.clear();
    this.#dueAt.clear();
  }

  /** Sends the notices of a journal from now on, or from the stored cursor. Rejects with StoreError. */
  watch = (source: NoticeSource): Promise<void> => this.#journals.watch(source);

  unwatch = (source: NoticeSource): void => this.#journals.unwatch(source);

  /** Sends due notifications. Never rejects. */
  run = async (signal: AbortSignal): Promise<void> => {
    const { log } = this.#deps;
    const { notifier, member } = this.#receiver;
    try {
      if (!this.#isLoaded) return;
      const isReadable = await this.#readIdentity();
      const requests = this.#requests(this.#compare());
      if (this.#down.isDue()) {
        if (requests.length > 0 && !isReadable)
          this.#failed({ answer: 'no secret', isDown: true }, requests[0]?.items ?? []);
        else await this.#sendAll(requests, signal);
      }
      await this.#log.save();
    } catch (error) {
      if (!signal.aborted) log.error({ notifier, member, error: String(error) }, 'bug');
    }
  };

  async #sendAll(requests: readonly DueRequest[], signal: AbortSignal): Promise<void> {
    for (const request of requests) if (signal.aborted || !(await this.#send(request, signal))) return;
    try {
      await this.#journals.send(this.#receiver.notifier, notice => this.#sendEvent(notice, signal));
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      this.#deps.log.debug({ error: String(error) }, 'a journal cannot be read yet');
    }
  }

  /** Sends a notice from a journal. Returns whether the next notice may follow now. */
  async #sendEvent(notice: Notice, signal: AbortSignal): Promise<boolean> {
    if (signal.aborted || this.#isRefused(notice) || !(await this.#deps.mayNotify())) return false;
    const result = await this.#receiver.send([notice], signal);
    const isDone = result.kind === 'ok' || (result.kind === 'refused' && !result.isWhole);
    if (result.kind === 'ok') this.#count('sent');
    else if (result.kind === 'retry') this.#failed({ ...result, isDown: true }, []);
    else this.#refuse([notice], result);
    if (isDone && result.kind !== 'ok') this.#drop(notice, result.answer);
    return isDone;
  }

  async #readIdentity(): Promise<boolean> {
    try {
      this.#identity = await this.#receiver.identity();
      return true;
    } catch {
      return false;
    }
  }

  /** Compares states and log. Counts alerts that ended before they were sent. */
  #compare(): Comparison['groups'] {
    const { states, clock } = this.#deps;
    const own = { receiver: this.#receiver, idOf: this.#idOf, log: this.#log, identity: this.#identity };
    const compared = compare(states, { ...own, repeated: this.#resolved, now: clock.now() });
    const changed = new Map<string, Notice>();
    for (const { changed: notices } of compared.groups.values())
      for (const notice of notices) changed.set(fingerprintOf(notice.labels), notice);
    for (const [fingerprint, notice] of this.#unsent) {
      const state = compared.states.get(fingerprint);
      const isSame = state?.status === 'firing' && state.startsAt === notice.startsAt;
      if (isSame ? changed.has(fingerprint) : !state && !states.isKnown(notice.labels.account ?? '')) continue;
      this.#unsent.delete(fingerprint);
      if (!isSame && !this.#sent(notice)) this.#drop(notice, 'it ended before it could be sent');
    }
    for (const [fingerprint, notice] of changed) {
      if (notice.status === 'firing' && this.#sent(notice)?.startsAt !== notice.startsAt)
        this.#unsent.set(fingerprint, notice);
    }
    for (const [fingerprint, { at }] of this.#refused) {
      if (!changed.has(fingerprint) && this.#isRepeatable(at)) this.#refused.delete(fingerprint);
    }
    for (const [fingerprint, startsAt] of this.#resolved) {
      const state = compared.states.get(fingerprint);
      if (state?.status !== 'resolved' || state.startsAt !== startsAt) this.#resolved.delete(fingerprint);
    }
    for (const kept of [this.#retries, this.#dueAt])
      for (const id of kept.keys()) if (!compared.groups.has(id)) kept.delete(id);
    this.#log.prune(compared.groups);
    return compared.groups;
  }

  #requests(groups: Comparison['groups']): readonly DueRequest[] {
    const { isMerging, maxAlerts } = this.#receiver;
    const requests: DueRequest[] = [];
    const merged: Item[] = [];
    for (const [id, group] of groups) {
      const { changed, others, isWhole } = this.#dueIn(id, group);
      // A refused alert is sent alone: otherwise it would make its batch fail again.
      const [alone = [], batch = []] = [true, false].map(isAlone =>
        changed.filter(({ labels }) => (this.#refused.get(fingerprintOf(labels))?.isOwn ?? false) === isAlone),
      );
      const toItem = (notice: Notice) => ({ id, notice, isWhole });
      requests.push(...alone.map(notice => ({ labels: group.labels, items: [toItem(notice)], left: 0 })));
      const items = [...batch, ...others].map(toItem);
      if (isMerging) merged.push(...items);
      else if (batch.length > 0 || alone.length === 0)
        requests.push(...split(group.labels, items, maxAlerts, batch.length));
    }
    return [...requests, ...split({}, merged, maxAlerts, merged.length)];
  }

  /** Returns a group's alerts to send now. `changed`: empty during the group's wait. `others`: empty for a partial group. */
  #dueIn(id: string, { changed, unchanged }: ComparedGroup) {
    const { clock } = this.#deps;
    const { isMerging, repeats, grouping } = this.#receiver;
    if (!(this.#retries.get(id)?.isDue() ?? true)) return { changed: [], others: [], isWhole: false };
    const open = changed.filter(notice => !this.#isRefused(notice));
    const others = isMerging ? unchanged : unchanged.filter(({ isSuppressed }) => !isSuppressed);
    if (open.length === 0) this.#dueAt.delete(id);
    const isDue = open.length > 0 && this.#hasWaited(id, open);
    // The clock may have been set back.
    const isOld = repeats && Math.abs(clock.now() - (this.#log.lastAt(id) ?? 0)) >= grouping.repeatEvery;
    const isRepeated = isOld && (isMerging || open.length === 0);
    const isWhole = isRepeated || (isDue && !isMerging);
    return { changed: isDue ? open : [], others: isWhole ? others : [], isWhole };
  }

  /** Whether a group's wait since its first change is over. A restart does not prolong it. */
  #hasWaited(id: string, changed: readonly Notice[]): boolean {
    const { clock } = this.#deps;
    const { wait } = this.#receiver.grouping;
    const first = changed.reduce(
      (first, { startsAt, firedAt = startsAt, endsAt = firedAt }) => Math.min(first, endsAt),
      Number.MAX_VALUE,
    );
    const left = Math.min(wait, Math.max(0, first + wait - clock.now()));
    const dueAt = this.#dueAt.get(id) ?? clock.monotonic() + left;
    this.#dueAt.set(id, dueAt);
    return dueAt <= clock.monotonic();
  }

  /** Sends one request. Returns whether the receiver can accept further requests now. */
  async #send(request: DueRequest, signal: AbortSignal): Promise<boolean> {
    const { labels, items, left } = request;
    const notices = items.map(({ notice }) => notice);
    const undo = await this.#intend(items);
    if (!(await this.#deps.mayNotify())) return false;
    const result = await this.#receiver.send(notices, signal, { labels, left, key: this.#keyOf(request) });
    if (result.kind === 'refused' || (result.kind === 'retry' && result.isUnsent)) undo();
    if (result.kind === 'retry') {
      this.#failed(result, items);
      return !result.isDown;
    }
    if (result.kind === 'refused' && !result.isWhole && items.length > 1) {
      // Send each alert separately, so that only invalid ones are refused.
      for (const item of items) if (!(await this.#send({ labels, items: [item], left: 0 }, signal))) return false;
      return true;
    }
    if (this.#down.failures > 0) this.#deps.log.info(this.#fields(items), 'notifications can be sent again');
    this.#down.succeeded();
    if (result.kind === 'ok') this.#accept(items);
    else this.#refuse(notices, result);
    for (const { id, isWhole } of items) {
      this.#retries.delete(id);
      this.#dueAt.delete(id);
      const isStored = result.kind === 'ok' && !this.#receiver.isMerging;
      if (isWhole) this.#log.setLast(id, this.#deps.clock.now(), isStored);
    }
    await this.#log.save();
    return true;
  }

  /**
   * Stores that the receiver may have accepted the alerts as firing. If the result stays unknown, for example after a crash, they
   * are sent again or resolved. Returns a function that undoes this.
   */
  async #intend(items: readonly Item[]): Promise<() => void> {
    const before = items.flatMap(({ id, notice }) => {
      const sent = this.#sent(notice);
      const isNew = notice.status === 'firing' && sent?.startsAt !== notice.startsAt;
      return isNew ? [{ id, notice, sent }] : [];
    });
    for (const { id, notice } of before) this.#log.record(id, fingerprintOf(notice.labels), toSent(notice, ''));
    await this.#log.save();
    return () => {
      for (const { id, notice, sent } of before) this.#log.record(id, fingerprintOf(notice.labels), sent);
    };
  }

  #sent = ({ labels }: Notice): SentAlert | undefined => this.#log.find(this.#idOf(labels), fingerprintOf(labels));

  #accept(items: readonly Item[]): void {
    this.#count('sent');
    for (const { id, notice } of items) {
      const { status, labels, startsAt } = notice;
      const fingerprint = fingerprintOf(labels);
      const isFiring = status === 'firing';
      this.#log.record(id, fingerprint, isFiring ? toSent(notice, this.#identity ?? '') : undefined);
      if (!isFiring && this.#receiver.isMerging) this.#resolved.set(fingerprint, startsAt);
      this.#unsent.delete(fingerprint);
      this.#refused.delete(fingerprint);
    }
  }

  #refuse(notices: readonly Notice[], { answer: why, isWhole }: Extract<SendResult, { kind: 'refused' }>): void {
    const { log, clock } = this.#deps;
    const { notifier, member } = this.#receiver;
    const [first] = notices;
    const level = first && this.#refused.has(fingerprintOf(first.labels)) ? 'debug' : 'error';
    this.#count('failed');
    log[level](
      { notifier, member, labels: first?.labels, alerts: notices.length, why },
      'the receiver refuses an alert',
    );
    const common = { identity: this.#identity, at: clock.monotonic(), isOwn: !isWhole };
    for (const notice of notices)
      this.#refused.set(fingerprintOf(notice.labels), { ...common, state: stateOf(notice) });
  }

  /** Whether the receiver refused this state of the alert less than `repeatEvery` ago, with its current identity. */
  #isRefused(notice: Notice): boolean {
    const refusal = this.#refused.get(fingerprintOf(notice.labels));
    if (refusal?.state !== stateOf(notice) || refusal.identity !== this.#identity) return false;
    return !this.#isRepeatable(refusal.at);
  }

  #isRepeatable = (at: number): boolean => this.#deps.clock.monotonic() - at >= this.#receiver.grouping.repeatEvery;

  #failed({ answer: why, isDown, after }: Failure, items: readonly Item[]): void {
    const { log } = this.#deps;
    this.#count('failed');
    const ids = isDown ? [undefined] : new Set(items.map(({ id }) => id));
    let isFirst = true;
    for (const id of ids) {
      const retry = id === undefined ? this.#down : (this.#retries.get(id) ?? this.#createRetry());
      if (id !== undefined) this.#retries.set(id, retry);
      retry.failed(after);
      isFirst &&= retry.failures === 1;
    }
    const fields = { ...this.#fields(items), why };
    if (isFirst) log.warn(fields, 'a notification could not be sent; retrying');
    else log.debug(fields, 'a notification still cannot be sent');
  }

  #drop({ labels, status }: Notice, why: string): void {
    this.#count('dropped');
    const { notifier, member } = this.#receiver;
    this.#deps.log.warn({ notifier, member, labels, status, why }, 'a notification is dropped');
  }

  #fields(items: readonly Item[]) {
    const { notifier, member } = this.#receiver;
    return { notifier, member, alerts: items.length };
  }

  #count(outcome: 'sent' | 'failed' | 'dropped'): void {
    this.#deps.notifications.inc({ notifier: this.#receiver.notifier, outcome });
  }

  #createRetry(): Retry {
    const { clock, random } = this.#deps;
    const longest = Math.min(BACKOFF.longest, this.#receiver.grouping.repeatEvery);
    return createRetry({ ...BACKOFF, longest }, clock, random);
  }

  #regroup(): void {
    this.#idOf = groupIds(this.#receiver.grouping);
    this.#log.regroup(this.#idOf);
  }

  /** Returns the same key for each attempt, even after a restart, but another key for a repetition. */
  #keyOf({ labels, items }: DueRequest): string {
    const alerts = items.map(({ notice }) => `${fingerprintOf(notice.labels)} ${stateOf(notice)}`);
    const status = items.some(({ notice }) => notice.status === 'firing') ? 'firing' : 'resolved';
    const lastAt = this.#log.lastAt(items[0]?.id ?? '') ?? 0;
    return `${fingerprintOf(labels)}:${status}:${hashedId([lastAt, ...alerts.sort()], 16)}`;
  }
}
