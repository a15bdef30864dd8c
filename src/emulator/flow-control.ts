import type { Agenda } from './agenda.ts';
import type { Fields } from './message.ts';

type Limited = { readonly [K in 'flowControlKey' | 'parallelism' | 'rate' | 'period']?: Fields[K] | undefined };

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
  started: number;
  periodStart: number;
}

/** Time after which an unused key is no longer listed (ms), as observed by clients. */
const IDLE_MS = 10 * 60_000;

export type FlowControl = ReturnType<typeof createFlowLimits>;
export type KeyDetail = ReturnType<FlowControl['keys']> extends Map<string, infer Detail> ? Detail : never;

const newKey = (fields: Limited, now: number): Key => ({
  ...{ waiting: [], fields, running: 0, started: 0, paused: false, planned: false },
  ...{ nextStart: 0, usedAt: now, periodStart: now },
});

/** Starts deliveries within the parallelism and rate of their key. Other deliveries wait in order. */
export function createFlowLimits(
  agenda: Agenda,
  changeOf: (name: string) => PlannedLimits | undefined = () => undefined,
  idleMs = IDLE_MS,
) {
  const keys = new Map<string, Key>();

  const limitsOf = ({ fields }: Key): Limited & { readonly isPinned?: boolean } => ({
    ...fields,
    ...changeOf(fields.flowControlKey ?? ''),
  });

  /** Returns the key with this name. If it is unknown, adds it without messages. */
  function open(name: string, fields: Limited): Key {
    const key = keys.get(name) ?? newKey(fields, agenda.now);
    keys.set(name, key);
    return key;
  }

  function countPeriod(key: Key): void {
    const length = (key.fields.period ?? 1) * 1000;
    const passed = Math.floor((agenda.now - key.periodStart) / length);
    if (passed === 0) return;
    key.periodStart += passed * length;
    key.started = 0;
  }

  function detailOf(key: Key) {
    countPeriod(key);
    const { waiting, running, started, periodStart, paused } = key;
    return { ...limitsOf(key), waiting: waiting.length, running, paused, started, periodStart };
  }

  function admit(key: Key): void {
    const { parallelism = Number.POSITIVE_INFINITY, rate, period = 1 } = limitsOf(key);
    const { now } = agenda;
    key.usedAt = now;
    while (!key.paused && key.running < parallelism && key.waiting.length > 0) {
      if (now < key.nextStart) {
        admitLater(key);
        return;
      }
      if (rate !== undefined) key.nextStart = now + Math.ceil((period * 1000) / rate);
      countPeriod(key);
      key.started++;
      key.running++;
      key.waiting.shift()?.();
    }
  }

  function admitLater(key: Key): void {
    if (key.planned) return;
    key.planned = true;
    agenda.at(key.nextStart, () => {
      key.planned = false;
      admit(key);
    });
  }

  return {
    open,
    /** Calls `start` when the flow-control key permits it, or immediately if there is no key. */
    enter(fields: Limited, start: () => void): void {
      if (fields.flowControlKey === undefined) {
        start();
        return;
      }
      const key = open(fields.flowControlKey, fields);
      key.fields = fields;
      key.waiting.push(start);
      admit(key);
    },
    leave({ flowControlKey = '' }: Limited): void {
      const key = keys.get(flowControlKey);
      if (!key) return;
      key.running--;
      admit(key);
    },
    /** Pauses or resumes a key. Returns false for an unknown key. */
    change(name: string, change: Pick<Key, 'paused'>): boolean {
      const key = keys.get(name);
      if (key) admit(Object.assign(key, change));
      return key !== undefined;
    },
    clear: () => keys.clear(),
    keys() {
      for (const [name, key] of keys) {
        const isIdle = key.running === 0 && key.waiting.length === 0 && !key.paused;
        if (isIdle && agenda.now - key.usedAt > idleMs) keys.delete(name);
      }
      const sorted = [...keys].sort(([a], [b]) => (a < b ? -1 : 1));
      return new Map(sorted.map(([name, key]) => [name, detailOf(key)]));
    },
  };
}
