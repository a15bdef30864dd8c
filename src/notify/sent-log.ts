import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import { readRow } from '../store/errors.ts';
import { isNotHeld, NO_ACCOUNT, type Store } from '../store/store.ts';
import type { Labels, Notice } from './notice.ts';

/** An alert that was sent as firing, with the text of its resolution. */
export interface SentAlert {
  readonly labels: Labels;
  readonly startsAt: number;
  readonly summary?: string | undefined;
  /** Identity of the receiver that accepted it: a hash of address and secret. Empty if the acceptance is unknown. */
  readonly receiver: string;
}

interface SentGroup {
  /** Time of the last notification (ms since the Unix epoch). */
  at: number;
  /** Firing alerts by fingerprint. */
  readonly alerts: Map<string, SentAlert>;
}

/** Key prefix of the agent-wide rows with sent alerts. */
export const SENT = 'alerts/log/';

/** Log of the alerts sent to one receiver, by group. Changes are collected for the next commit. */
export class SentLog {
  readonly #prefix: string;
  readonly #deps: { readonly store: Pick<Store, 'commit'>; readonly log: Log };
  #groups = new Map<string, SentGroup>();
  readonly #changed = new Set<string>();

  /** `prefix`: key prefix of the receiver's rows. */
  constructor(prefix: string, deps: { readonly store: Pick<Store, 'commit'>; readonly log: Log }) {
    this.#prefix = prefix;
    this.#deps = deps;
  }

  /** Adds the stored rows of the receiver. Throws StoreError. */
  load(rows: ReadonlyMap<string, string>): void {
    for (const [key, value] of rows) {
      if (!key.startsWith(this.#prefix)) continue;
      const { at, alerts } = readRow<{ at: number; alerts: Record<string, SentAlert> }>(key, value);
      this.#groups.set(key.slice(this.#prefix.length), { at, alerts: new Map(Object.entries(alerts)) });
    }
  }

  /** Moves alerts to their groups under another grouping. */
  regroup(idOf: (labels: Labels) => string): void {
    const before = this.#groups;
    this.#groups = new Map();
    for (const [id, { at, alerts }] of before) {
      for (const [fingerprint, alert] of alerts) {
        const next = idOf(alert.labels);
        const group = this.#group(next);
        group.at = Math.max(group.at, at);
        group.alerts.set(fingerprint, alert);
        if (next !== id) this.#changed.add(id).add(next);
      }
    }
  }

  find = (id: string, fingerprint: string): SentAlert | undefined => this.#groups.get(id)?.alerts.get(fingerprint);

  /** Returns the time of a group's last notification; undefined before the first. */
  lastAt = (id: string): number | undefined => this.#groups.get(id)?.at;

  *alerts(): Generator<readonly [id: string, fingerprint: string, alert: SentAlert]> {
    for (const [id, { alerts }] of this.#groups) {
      for (const [fingerprint, alert] of alerts) yield [id, fingerprint, alert];
    }
  }

  /** Records a firing alert as sent. Without `alert`, removes it from the log. */
  record(id: string, fingerprint: string, alert: SentAlert | undefined): void {
    const { alerts } = this.#group(id);
    const before = alerts.get(fingerprint);
    if (before?.startsAt !== alert?.startsAt || before?.receiver !== alert?.receiver) this.#changed.add(id);
    if (alert) alerts.set(fingerprint, alert);
    else alerts.delete(fingerprint);
  }

  /** Sets the time of a group's last notification. Without `isStored`, the next process starts with an older time. */
  setLast(id: string, at: number, isStored: boolean): void {
    this.#group(id).at = at;
    if (isStored) this.#changed.add(id);
  }

  /** Discards the times of groups without alerts, except groups in `ids`. */
  prune(ids: ReadonlyMap<string, unknown>): void {
    for (const [id, { alerts }] of this.#groups) if (alerts.size === 0 && !ids.has(id)) this.#groups.delete(id);
  }

  /** Commits the changes. After an error, the next call tries again. */
  async save(): Promise<void> {
    const changes = [...this.#changed].map(id => ({ key: this.#prefix + id, value: this.#rowOf(id) }));
    try {
      if (changes.length > 0) await this.#deps.store.commit(NO_ACCOUNT, changes);
    } catch (error) {
      // After a takeover, the rows belong to the next leader.
      if (!isNotHeld(error)) this.#deps.log.debug({ error: String(error) }, 'sent alerts could not be logged yet');
      return;
    }
    this.#changed.clear();
  }

  #rowOf(id: string): string | null {
    const { at, alerts } = this.#groups.get(id) ?? { at: 0, alerts: new Map() };
    return alerts.size === 0 ? null : JSON.stringify({ at, alerts: Object.fromEntries(alerts) });
  }

  #group(id: string): SentGroup {
    const group = this.#groups.get(id) ?? { at: 0, alerts: new Map() };
    this.#groups.set(id, group);
    return group;
  }
}

/** A line of a journal. `notifiers`: names of the notifiers that get its notice. */
export interface NoticeLine {
  readonly number: number;
  readonly at: number;
  readonly notice?: Notice | undefined;
  readonly notifiers?: readonly string[] | undefined;
}

/** The journal of an account. Its lines have increasing numbers. */
export interface NoticeSource {
  readonly account: string;
  /** Number of the last line; 0 for an empty journal. */
  last(): number;
  /** Returns some of the lines after a number, without gaps, oldest first. Rejects with StoreError. */
  after(number: number): Promise<readonly NoticeLine[]>;
}

interface CursorDeps {
  readonly store: Pick<Store, 'scan' | 'commit'>;
  readonly clock: Pick<Clock, 'now'>;
  drop(notice: Notice, why: string): void;
}

/** Key prefix of an account's rows with the positions of receivers in its journal. */
const CURSOR = 'alerts/cursor/';
/** Time after which the notice of a line is not sent (ms). */
const EXPIRES_AFTER = 24 * 3_600_000;

/** Positions of one receiver in the journals. Each starts at the journal's end when the receiver is added. */
export class JournalCursors {
  readonly #key: string;
  readonly #deps: CursorDeps;
  readonly #cursors = new Map<NoticeSource, number>();

  constructor(receiver: string, deps: CursorDeps) {
    this.#key = CURSOR + receiver;
    this.#deps = deps;
  }

  async watch(source: NoticeSource): Promise<void> {
    const { account } = source;
    // If the store fails, the receiver gets only lines added from now on.
    this.#cursors.set(source, source.last());
    const stored = (await this.#deps.store.scan(account, this.#key)).get(this.#key);
    const cursor = /^\d+$/.test(stored ?? '') ? Math.min(Number(stored), source.last()) : source.last();
    if (stored !== String(cursor)) await this.#store(source, cursor);
    this.#cursors.set(source, cursor);
  }

  unwatch(source: NoticeSource): void {
    this.#cursors.delete(source);
  }

  /** Sends the notices for a notifier in order, until `send` returns false. Rejects if a journal cannot be read. */
  async send(notifier: string, send: (notice: Notice) => Promise<boolean>): Promise<void> {
    const { clock, drop } = this.#deps;
    for (const [source, start] of this.#cursors) {
      let cursor = start;
      while (cursor < source.last() && this.#cursors.has(source)) {
        for (const { number, at, notice, notifiers } of await source.after(cursor)) {
          if (notice && notifiers?.includes(notifier)) {
            if (clock.now() - at > EXPIRES_AFTER) drop(notice, 'it could not be sent for 24 hours');
            else if (!(await send(notice))) return;
          }
          cursor = number;
          if (this.#cursors.has(source)) this.#cursors.set(source, cursor);
          if (notice || number === source.last()) await this.#store(source, cursor).catch(() => undefined);
        }
      }
    }
  }

  async #store({ account }: NoticeSource, cursor: number): Promise<void> {
    try {
      await this.#deps.store.commit(account, [{ key: this.#key, value: String(cursor) }]);
    } catch (error) {
      // After a takeover, the row belongs to the next leader.
      if (!isNotHeld(error)) throw error;
    }
  }
}
