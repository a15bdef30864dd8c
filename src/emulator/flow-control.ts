import type { Agenda } from './agenda.ts';
import type { Fields } from './message.ts';

interface Key {
  readonly waiting: (() => void)[];
  running: number;
  /** The rate lets nothing start before this time. */
  nextStart: number;
  /** A start at `nextStart` is planned. */
  planned: boolean;
  usedAt: number;
}

/** A key that nobody has used for so long is no longer listed: clients of the service have met idle keys that were gone. */
const IDLE_MS = 10 * 60_000;

/** Lets deliveries of a key start as its parallelism and rate allow; the others wait, first come first served. */
export class FlowControl {
  readonly #agenda: Agenda;
  readonly #keys = new Map<string, Key>();

  constructor(agenda: Agenda) {
    this.#agenda = agenda;
  }

  /** Calls `start` now or when the key of these fields has room; without a key, at once. */
  enter(fields: Fields, start: () => void): void {
    if (fields.flowControlKey === undefined) {
      start();
      return;
    }
    let key = this.#keys.get(fields.flowControlKey);
    if (!key) {
      key = { waiting: [], running: 0, nextStart: 0, planned: false, usedAt: this.#agenda.now };
      this.#keys.set(fields.flowControlKey, key);
    }
    key.waiting.push(start);
    this.#admit(key, fields);
  }

  /** A delivery that was let in has ended. */
  leave(fields: Fields): void {
    const key = fields.flowControlKey === undefined ? undefined : this.#keys.get(fields.flowControlKey);
    if (!key) return;
    key.running--;
    this.#admit(key, fields);
  }

  /** Forgets every key and whoever waits. */
  clear(): void {
    this.#keys.clear();
  }

  /** Waitlist sizes by key, in the order of the names. */
  waitlists(): Map<string, number> {
    const sizes = new Map<string, number>();
    for (const [name, key] of this.#keys) {
      const isIdle = key.running === 0 && key.waiting.length === 0;
      if (isIdle && this.#agenda.now - key.usedAt > IDLE_MS) this.#keys.delete(name);
      else sizes.set(name, key.waiting.length);
    }
    return new Map([...sizes].sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  #admit(key: Key, fields: Fields): void {
    const { parallelism = Number.POSITIVE_INFINITY, rate, period = 1 } = fields;
    const now = this.#agenda.now;
    key.usedAt = now;
    while (key.running < parallelism && key.waiting.length > 0) {
      if (now < key.nextStart) {
        this.#admitLater(key, fields);
        return;
      }
      if (rate !== undefined) key.nextStart = now + Math.ceil((period * 1000) / rate);
      key.running++;
      key.waiting.shift()?.();
    }
  }

  #admitLater(key: Key, fields: Fields): void {
    if (key.planned) return;
    key.planned = true;
    this.#agenda.at(key.nextStart, () => {
      key.planned = false;
      this.#admit(key, fields);
    });
  }
}
