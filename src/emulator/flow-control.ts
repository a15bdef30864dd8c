import type { Agenda } from './agenda.ts';
import type { Fields } from './message.ts';

interface Key {
  readonly waiting: (() => void)[];
  readonly again: (() => void)[];
  fields: Fields;
  running: number;
  /** Number of slots that are in use without a delivery. */
  ghosts: number;
  /** Number of further deliveries that will leak their slot. */
  leaksLeft: number;
  paused: boolean;
  /** Whether no delivery starts, for a reason that the key's fields do not show. */
  starved: boolean;
  /** Limits set by an operator, which override those of messages. */
  pinned: Pick<Fields, 'parallelism' | 'rate' | 'period'>;
  nextStart: number;
  planned: boolean;
  usedAt: number;
  /** Number of deliveries started in the current rate period. */
  started: number;
  periodStart: number;
}

export interface KeyDetail {
  readonly waiting: number;
  /** Number of slots in use: deliveries in flight, messages that keep their slot until a retry, and ghost slots. */
  readonly running: number;
  readonly ghosts: number;
  readonly paused: boolean;
  readonly parallelism?: number | undefined;
  readonly rate?: number | undefined;
  readonly period?: number | undefined;
  readonly started: number;
  readonly periodStart: number;
}

/** Time after which an unused key is no longer listed (ms), as observed by clients. */
const IDLE_MS = 10 * 60_000;

/** Returns the limits of a key. Called for every delivery, so it must not copy all fields. */
const limitsOf = ({ fields, pinned }: Key) => ({
  parallelism: pinned.parallelism ?? fields.parallelism,
  rate: pinned.rate ?? fields.rate,
  period: pinned.period ?? fields.period,
});

/** Starts deliveries within the parallelism and rate of their key. Others wait in order. */
export class FlowControl {
  readonly #agenda: Agenda;
  readonly #leaks: () => boolean;
  readonly #keys = new Map<string, Key>();

  /** `leaks`: decides at the end of each delivery whether its slot leaks instead of being released. */
  constructor(agenda: Agenda, leaks: () => boolean = () => false) {
    this.#agenda = agenda;
    this.#leaks = leaks;
  }

  /**
   * Calls `start` when the flow-control key permits it, or immediately if there is no key. `again`: a retry that has kept its
   * slot.
   */
  enter(fields: Fields, start: () => void, line: 'waiting' | 'again' = 'waiting'): void {
    if (fields.flowControlKey === undefined) {
      start();
      return;
    }
    let key = this.#keys.get(fields.flowControlKey);
    if (!key) {
      key = this.#newKey(fields);
      this.#keys.set(fields.flowControlKey, key);
    }
    key.fields = fields;
    key[line].push(start);
    this.#admit(key);
  }

  leave(fields: Fields): void {
    const key = fields.flowControlKey === undefined ? undefined : this.#keys.get(fields.flowControlKey);
    if (!key) return;
    key.running--;
    // Keep one slot usable, so that the key is never completely blocked.
    const { parallelism = 1 } = limitsOf(key);
    if (key.leaksLeft > 0) {
      key.leaksLeft--;
      key.ghosts++;
    } else if (key.ghosts + 1 < parallelism && this.#leaks()) key.ghosts++;
    this.#admit(key);
  }

  /** Changes a key's state. Returns false for an unknown key. */
  change(name: string, change: Partial<Pick<Key, 'paused' | 'starved' | 'ghosts' | 'leaksLeft' | 'pinned'>>): boolean {
    const key = this.#keys.get(name);
    if (key) this.#admit(Object.assign(key, change));
    return key !== undefined;
  }

  clear(): void {
    this.#keys.clear();
  }

  keys(): Map<string, KeyDetail> {
    for (const [name, key] of this.#keys) {
      const isIdle = key.running === 0 && key.waiting.length === 0 && key.ghosts === 0 && !key.paused;
      if (isIdle && this.#agenda.now - key.usedAt > IDLE_MS) this.#keys.delete(name);
    }
    const sorted = [...this.#keys].sort(([a], [b]) => (a < b ? -1 : 1));
    return new Map(sorted.map(([name, key]) => [name, this.#detail(key)]));
  }

  #detail(key: Key): KeyDetail {
    const { parallelism, rate, period } = limitsOf(key);
    this.#countPeriod(key);
    const { started, periodStart, paused, ghosts } = key;
    const [waiting, running] = [key.waiting.length, key.running + ghosts];
    return { waiting, running, ghosts, paused, parallelism, rate, period, started, periodStart };
  }

  #newKey(fields: Fields): Key {
    const now = this.#agenda.now;
    const times = { nextStart: 0, usedAt: now, periodStart: now };
    const counts = { running: 0, ghosts: 0, leaksLeft: 0, started: 0 };
    const switches = { paused: false, starved: false, planned: false, pinned: {} };
    return { waiting: [], again: [], fields, ...switches, ...counts, ...times };
  }

  #countPeriod(key: Key): void {
    const length = (key.pinned.period ?? key.fields.period ?? 1) * 1000;
    const passed = Math.floor((this.#agenda.now - key.periodStart) / length);
    if (passed === 0) return;
    key.periodStart += passed * length;
    key.started = 0;
  }

  #admit(key: Key): void {
    const { parallelism = Number.POSITIVE_INFINITY, rate, period = 1 } = limitsOf(key);
    const now = this.#agenda.now;
    key.usedAt = now;
    const canStart = () => key.running + key.ghosts < parallelism && key.waiting.length > 0;
    while (!key.paused && !key.starved && (key.again.length > 0 || canStart())) {
      if (now < key.nextStart) {
        this.#admitLater(key);
        return;
      }
      if (rate !== undefined) key.nextStart = now + Math.ceil((period * 1000) / rate);
      this.#countPeriod(key);
      key.started++;
      const again = key.again.shift();
      if (!again) key.running++;
      (again ?? key.waiting.shift())?.();
    }
  }

  #admitLater(key: Key): void {
    if (key.planned) return;
    key.planned = true;
    this.#agenda.at(key.nextStart, () => {
      key.planned = false;
      this.#admit(key);
    });
  }
}
