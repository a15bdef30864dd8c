import type { Agenda } from './agenda.ts';
import type { Fields } from './message.ts';

interface Key {
  readonly waiting: (() => void)[];
  readonly again: (() => void)[];
  fields: Fields;
  running: number;
  ghosts: number;
  /** Number of further deliveries that will not release their slot. */
  leaksLeft: number;
  paused: boolean;
  /** Whether no delivery starts although no field of the key explains why. */
  starved: boolean;
  /** Limits set by an operator, which override the messages' limits. */
  pinned: FlowLimits;
  nextStart: number;
  planned: boolean;
  usedAt: number;
  /** Deliveries started in the rate period that began at `periodStart`. */
  started: number;
  periodStart: number;
}

export type FlowLimits = Pick<Fields, 'parallelism' | 'rate' | 'period'>;

export interface KeyDetail {
  readonly waiting: number;
  /** Deliveries in flight, messages that keep their slot until a retry, and ghost slots. */
  readonly running: number;
  readonly ghosts: number;
  readonly paused: boolean;
  readonly parallelism: number | undefined;
  readonly rate: number | undefined;
  readonly period: number | undefined;
  readonly started: number;
  readonly periodStart: number;
}

/** Time after which unused keys are no longer listed (ms), as clients of the service have observed. */
const IDLE_MS = 10 * 60_000;

/** Returns the limits of a key. Called at every start and end of a delivery, so it must not copy all fields. */
const limitsOf = ({ fields, pinned }: Key) => ({
  parallelism: pinned.parallelism ?? fields.parallelism,
  rate: pinned.rate ?? fields.rate,
  period: pinned.period ?? fields.period,
});

/** Starts deliveries of a key as its parallelism and rate permit; the others wait in first-come order. */
export class FlowControl {
  readonly #agenda: Agenda;
  readonly #leaks: () => boolean;
  readonly #keys = new Map<string, Key>();

  /** `leaks`: whether the slot of a delivery that ends now is never released. */
  constructor(agenda: Agenda, leaks: () => boolean = () => false) {
    this.#agenda = agenda;
    this.#leaks = leaks;
  }

  /** Calls `start` when the flow-control key in `fields` permits it; immediately if there is no key. */
  enter(fields: Fields, start: () => void): void {
    this.#enter(fields, start, 'waiting');
  }

  /** Like `enter`, for a retry of a message that has kept its slot. */
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
    // At least one slot remains, so that the key is never blocked for good.
    const { parallelism = 1 } = limitsOf(key);
    if (key.leaksLeft > 0) {
      key.leaksLeft--;
      key.ghosts++;
    } else if (key.ghosts + 1 < parallelism && this.#leaks()) key.ghosts++;
    this.#admit(key);
  }

  /** Pauses or resumes a key; returns false if it does not exist. */
  pause(name: string, paused: boolean): boolean {
    return this.#change(name, { paused });
  }

  /** Occupies this many slots of a key without a delivery; returns false if the key does not exist. */
  occupySlots(name: string, ghosts: number): boolean {
    return this.#change(name, { ghosts });
  }

  /** Blocks a key without reporting it as paused, or unblocks it; returns false if it does not exist. */
  starve(name: string, starved: boolean): boolean {
    return this.#change(name, { starved });
  }

  /** Overrides the limits of a key; returns false if it does not exist. */
  pin(name: string, pinned: FlowLimits): boolean {
    return this.#change(name, { pinned });
  }

  /** Makes the next `leaksLeft` deliveries keep their slot after they end; returns false if the key does not exist. */
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
