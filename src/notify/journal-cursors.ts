import type { Clock } from '../kit/clock.ts';
import { isNotHeld, type Store } from '../store/store.ts';
import type { Notice } from './notice.ts';

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

/** Sends the notices of journals. */
export interface JournalWatcher {
  /** Resolves when the receivers' cursors are stored: lines after them are sent at least once. Rejects with StoreError. */
  watch(source: NoticeSource): Promise<void>;
  unwatch(source: NoticeSource): void;
}

interface Deps {
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
  readonly #deps: Deps;
  readonly #cursors = new Map<NoticeSource, number>();

  constructor(receiver: string, deps: Deps) {
    this.#key = CURSOR + receiver;
    this.#deps = deps;
  }

  async watch(source: NoticeSource): Promise<void> {
    const { account } = source;
    // If the store fails, the receiver gets the lines from now on.
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
