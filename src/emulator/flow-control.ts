import type { Agenda } from './agenda.ts';
import type { Fields } from './message.ts';

/** The part of a message's fields that limits its deliveries. */
type Limited = { readonly [K in 'flowControlKey' | 'parallelism' | 'rate' | 'period']?: Fields[K] | undefined };

/** Limits that replace those of the messages. */
export interface PlannedLimits extends Pick<Fields, 'parallelism' | 'rate'> {
  readonly isPinned: boolean;
}

interface Key {
  readonly waiting: (() => void)[];
  fields: Limited;
  running: number;
  paused: boolean;
  nextStart: number;
  planned: boolean;
  usedAt: number;
  /** Number of deliveries started in the current rate period. */
  started: number;
  periodStart: number;
}

export interface KeyDetail {
  readonly waiting: number;
  /** Number of deliveries in flight. */
  readonly running: number;
  readonly paused: boolean;
  readonly parallelism?: number | undefined;
  readonly rate?: number | undefined;
  readonly period?: number | undefined;
  readonly isPinned?: boolean | undefined;
  readonly started: number;
  readonly periodStart: number;
}

/** Time after which an unused key is no longer listed (ms), as observed by clients. */
const IDLE_MS = 10 * 60_000;

/** Starts deliveries within the parallelism and rate of their key. Others wait in order. */
export class FlowControl {
  readonly #agenda: Agenda;
  readonly #changeOf: (name: string) => PlannedLimits | undefined;
  readonly #idleMs: number;
  readonly #keys = new Map<string, Key>();

  constructor(
    agenda: Agenda,
    {
      changeOf = () => undefined,
      idleMs = IDLE_MS,
    }: { changeOf?: (name: string) => PlannedLimits | undefined; idleMs?: number } = {},
  ) {
    this.#agenda = agenda;
    this.#changeOf = changeOf;
    this.#idleMs = idleMs;
  }

  /** Returns the key of a message. Adds a new one, without a message. */
  open(name: string, fields: Limited): Key {
    const key = this.#keys.get(name) ?? this.#newKey(fields);
    this.#keys.set(name, key);
    return key;
  }

  /** Calls `start` when the flow-control key permits it, or immediately if there is no key. */
  enter(fields: Limited, start: () => void): void {
    if (fields.flowControlKey === undefined) {
      start();
      return;
    }
    const key = this.open(fields.flowControlKey, fields);
    key.fields = fields;
    key.waiting.push(start);
    this.#admit(key);
  }

  leave(fields: Limited): void {
    const key = fields.flowControlKey === undefined ? undefined : this.#keys.get(fields.flowControlKey);
    if (!key) return;
    key.running--;
    this.#admit(key);
  }

  /** Pauses or resumes a key. Returns false for an unknown key. */
  change(name: string, change: Partial<Pick<Key, 'paused'>>): boolean {
    const key = this.#keys.get(name);
    if (key) this.#admit(Object.assign(key, change));
    return key !== undefined;
  }

  clear(): void {
    this.#keys.clear();
  }

  keys(): Map<string, KeyDetail> {
    for (const [name, key] of this.#keys) {
      const isIdle = key.running === 0 && key.waiting.length === 0 && !key.paused;
      if (isIdle && this.#agenda.now - key.usedAt > this.#idleMs) this.#keys.delete(name);
    }
    const sorted = [...this.#keys].sort(([a], [b]) => (a < b ? -1 : 1));
    return new Map(sorted.map(([name, key]) => [name, this.#detail(key)]));
  }

  #detail(key: Key): KeyDetail {
    const { parallelism, rate, period, isPinned } = this.#limitsOf(key);
    this.#countPeriod(key);
    const { running, started, periodStart, paused } = key;
    return { waiting: key.waiting.length, running, paused, parallelism, rate, period, isPinned, started, periodStart };
  }

  #limitsOf({ fields }: Key): Limited & { readonly isPinned?: boolean } {
    return { ...fields, ...this.#changeOf(fields.flowControlKey ?? '') };
  }

  #newKey(fields: Limited): Key {
    const now = this.#agenda.now;
    const times = { nextStart: 0, usedAt: now, periodStart: now };
    return { waiting: [], fields, running: 0, started: 0, paused: false, planned: false, ...times };
  }

  #countPeriod(key: Key): void {
    const length = (key.fields.period ?? 1) * 1000;
    const passed = Math.floor((this.#agenda.now - key.periodStart) / length);
    if (passed === 0) return;
    key.periodStart += passed * length;
    key.started = 0;
  }

  #admit(key: Key): void {
    const { parallelism = Number.POSITIVE_INFINITY, rate, period = 1 } = this.#limitsOf(key);
    const now = this.#agenda.now;
    key.usedAt = now;
    while (!key.paused && key.running < parallelism && key.waiting.length > 0) {
      if (now < key.nextStart) {
        this.#admitLater(key);
        return;
      }
      if (rate !== undefined) key.nextStart = now + Math.ceil((period * 1000) / rate);
      this.#countPeriod(key);
      key.started++;
      key.running++;
      key.waiting.shift()?.();
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
