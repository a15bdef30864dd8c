import type { Agenda } from './agenda.ts';
import type { Fields } from './message.ts';

interface Key {
  readonly waiting: (() => void)[];
  readonly again: (() => void)[];
  fields: Fields;
  running: number;
  ghosts: number;
  /** As many deliveries that end from now on do not give their slot back. */
  leaksLeft: number;
  paused: boolean;
  /** Nothing starts, and no field of the key says why. */
  starved: boolean;
  /** What an operator set in place of what messages say. */
  pinned: Limits;
  nextStart: number;
  planned: boolean;
  usedAt: number;
  /** Starts in the period of the rate that began at `periodStart`. */
  started: number;
  periodStart: number;
}

export type Limits = Pick<Fields, 'parallelism' | 'rate' | 'period'>;

export interface KeyDetail {
  readonly waiting: number;
  /** Deliveries under way, messages that keep their slots until their retry, and slots that are taken though nothing has them. */
  readonly running: number;
  readonly ghosts: number;
  readonly paused: boolean;
  readonly parallelism: number | undefined;
  readonly rate: number | undefined;
  readonly period: number | undefined;
  readonly started: number;
  readonly periodStart: number;
}

/** A key that was not used for so long is no longer listed: clients of the service have met idle keys that were gone. */
const IDLE_MS = 10 * 60_000;

/** Asked for at every start and end of a delivery, for which a copy of all fields is too dear. */
const limitsOf = ({ fields, pinned }: Key) => ({
  parallelism: pinned.parallelism ?? fields.parallelism,
  rate: pinned.rate ?? fields.rate,
  period: pinned.period ?? fields.period,
});

/** Lets deliveries of a key start as its parallelism and rate allow; the others wait, first come first served. */
export class FlowControl {
  readonly #agenda: Agenda;
  readonly #leaks: () => boolean;
  readonly #keys = new Map<string, Key>();

  /** `leaks`: whether the slot of a delivery that ends now is never given back. */
  constructor(agenda: Agenda, leaks: () => boolean = () => false) {
    this.#agenda = agenda;
    this.#leaks = leaks;
  }

  /** Calls `start` now or when the key of these fields has room; without a key, at once. */
  enter(fields: Fields, start: () => void): void {
    this.#enter(fields, start, 'waiting');
  }

  enterAgain(fields: Fields, start: () => void): void {
    this.#enter(fields, start, 'again');
  }

  #enter(fields: Fields, start: () => void, line: 'waiting' | 'again'): void {
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
    // One slot stays, or nothing would ever happen again.
    const { parallelism = 1 } = limitsOf(key);
    if (key.leaksLeft > 0) {
      key.leaksLeft--;
      key.ghosts++;
    } else if (key.ghosts + 1 < parallelism && this.#leaks()) key.ghosts++;
    this.#admit(key);
  }

  /** Lets nothing of a key start, or lets it start again; false when there is no such key. */
  pause(name: string, paused: boolean): boolean {
    return this.#change(name, { paused });
  }

  /** Takes this many slots of a key that nothing runs in; false when there is no such key. */
  takeSlots(name: string, ghosts: number): boolean {
    return this.#change(name, { ghosts });
  }

  /** Lets nothing of a key start and says nothing of it, or lets it start again; false when there is no such key. */
  starve(name: string, starved: boolean): boolean {
    return this.#change(name, { starved });
  }

  /** Sets limits of a key in place of what its messages say; false when there is no such key. */
  pin(name: string, pinned: Limits): boolean {
    return this.#change(name, { pinned });
  }

  /** The next so many deliveries of a key that end do not give their slot back; false when there is no such key. */
  leak(name: string, leaksLeft: number): boolean {
    return this.#change(name, { leaksLeft });
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

  #change(name: string, change: Partial<Pick<Key, 'paused' | 'starved' | 'ghosts' | 'leaksLeft' | 'pinned'>>): boolean {
    const key = this.#keys.get(name);
    if (key) this.#admit(Object.assign(key, change));
    return key !== undefined;
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
    return {
      waiting: [],
      again: [],
      fields,
      pinned: {},
      paused: false,
      starved: false,
      planned: false,
      ...counts,
      ...times,
    };
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
    const hasRoom = () => key.running + key.ghosts < parallelism && key.waiting.length > 0;
    while (!key.paused && !key.starved && (key.again.length > 0 || hasRoom())) {
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
