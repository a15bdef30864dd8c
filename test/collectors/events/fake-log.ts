import { createEvents, type EventsServices, events } from '../../../src/collectors/events/events.ts';
import type { EventsFacts } from '../../../src/collectors/events/families.ts';
import type { TraceOptions } from '../../../src/collectors/events/traces.ts';
import type { EventState } from '../../../src/model/message.ts';
import type { Reader } from '../../../src/upstream/api.ts';
import type { TrueEvent } from '../../support/event-truth.ts';

export const SECOND = 1000;
export const MINUTE = 60_000;
export const HOUR = 3_600_000;

/** Maximum number of requests. A synchronous read that never ends would also block the test's timeout. */
const MAX_REQUESTS = 100_000;

/** An event and the time at which it is listed. Times are in milliseconds. */
export interface LoggedEvent extends TrueEvent {
  readonly listedAt: number;
  /** Whether the log lists the event twice. */
  readonly twice?: boolean;
  readonly url?: string;
  readonly topic?: string;
  readonly schedule?: string;
  readonly labels?: readonly string[];
  readonly queue?: string;
}

interface Spacing extends Pick<LoggedEvent, 'twice' | 'url' | 'topic' | 'schedule' | 'labels' | 'queue'> {
  readonly wait?: number;
  readonly late?: number;
}

export interface LogShape {
  /** Rows per page. */
  readonly page?: number;
  readonly order?: 'up' | 'down' | 'mixed';
  /** Whether each page repeats the last row of the previous page. */
  readonly seam?: boolean;
  /** Duration of each page request (ms). */
  readonly tick?: number;
  /** Range bounds that the service ignores. */
  readonly ignores?: readonly ('from' | 'to')[];
  /** Number of empty pages before each list. */
  readonly empty?: number;
}

/**
 * Creates a log that delays and duplicates events, orders pages arbitrarily, drops old events, fails, and grows while
 * it is read.
 */
export function createLog(shape: LogShape = {}) {
  const { page = 1000, order = 'down', seam = false, tick = 0, ignores = [], empty = 0 } = shape;
  const log: LoggedEvent[] = [];
  const clock = { now: 1_700_000_000_000 };
  const service = {
    /** Retention of the log (ms). */
    keeps: Number.POSITIVE_INFINITY,
    /** Number of the request that fails; the next one succeeds. */
    failsAt: 0,
    /** Whether the row of an event is readable. */
    isReadable: (_event: LoggedEvent) => true,
    requests: 0,
    /** Number of rows in all responses. */
    rows: 0,
    /** All requested ranges. */
    asked: [] as { from: number; to: number }[],
  };
  const scramble = ({ messageId, state, time }: LoggedEvent) =>
    (time * 7919 + messageId.length * 31 + state.length) % 97;
  const compare = (a: LoggedEvent, b: LoggedEvent) => {
    if (order === 'mixed') return scramble(a) - scramble(b) || a.time - b.time;
    return order === 'up' ? a.time - b.time : b.time - a.time;
  };

  function listedNow(from: number, to: number): LoggedEvent[] {
    return log
      .filter(({ time }) => (ignores.includes('from') || time >= from) && (ignores.includes('to') || time <= to))
      .filter(({ time, listedAt }) => listedAt <= clock.now && time >= clock.now - service.keeps)
      .toSorted(compare)
      .flatMap(event => (event.twice ? [event, event] : [event]));
  }

  function request(): void {
    service.requests += 1;
    if (service.requests > MAX_REQUESTS) throw new Error(`more than ${MAX_REQUESTS} requests`);
    if (service.requests === service.failsAt) throw new Error('the service is away');
  }

  async function* pages(from: number, to: number) {
    service.asked.push({ from, to });
    if (!Number.isInteger(from) || !Number.isInteger(to)) throw new Error(`no times in milliseconds: ${from} to ${to}`);
    for (let number = 0; number < empty; number += 1) {
      request();
      yield { rows: [], rejected: 0 };
    }
    let last: LoggedEvent | undefined;
    let listed: LoggedEvent[] = [];
    let listedFor = '';
    let done = 0;
    do {
      request();
      // Each page is a snapshot of the log at the time of its request. Events inserted before its position are missed.
      const version = `${log.length} at ${clock.now}`;
      if (version !== listedFor) listed = listedNow(from, to);
      listedFor = version;
      clock.now += tick;
      const place = last === undefined ? 0 : Math.max(done, listed.lastIndexOf(last) + 1);
      const rows = listed.slice(seam && place > 0 ? place - 1 : place, place + page);
      service.rows += rows.length;
      const readable = rows.filter(service.isReadable).map(row => ({ ...row, state: row.state as EventState }));
      yield { rows: readable, rejected: rows.length - readable.length };
      done = place + page;
      last = rows.at(-1);
    } while (done < listed.length);
  }

  const api = {
    eventPages: ({ fromDate = 0, toDate = Number.POSITIVE_INFINITY }) => pages(fromDate, toDate),
  } as unknown as Reader;
  return {
    log,
    clock,
    service,
    api,
    /** Adds one message's events, `wait` ms apart, each listed with a delay of `late` ms. */
    add(
      messageId: string,
      states: readonly string[],
      start: number,
      { wait = 10, late = 0, ...rest }: Spacing = {},
    ): void {
      for (const [index, state] of states.entries()) {
        const time = start + index * wait;
        log.push({ messageId, state, time, listedAt: time + late, ...rest });
      }
    },
  };
}

export type FakeLog = ReturnType<typeof createLog>;

/** Performs a fold and returns whether the round is complete. */
type Pending = () => boolean;

/** Creates an agent that reads the log and can be killed between steps. A kill discards uncommitted work. */
export function createAgent(
  { api, clock }: Pick<FakeLog, 'api' | 'clock'>,
  chosen: object = {},
  traces?: TraceOptions,
) {
  const create = (options: object, services: EventsServices = {}) =>
    createEvents(events.options.parse(options), { traces, ...services });
  let collector = create(chosen);
  const rows = new Map<string, string>();
  const walks = new Map<string, { now: number; walk: Parameters<typeof collector.observe>[0]['walk'] }>();
  let memory = collector.restore(new Map(rows));
  let shown = collector.recall?.(memory) as EventsFacts;

  function restart(): void {
    walks.clear();
    memory = collector.restore(new Map(rows));
    shown = collector.recall?.(memory) as EventsFacts;
  }

  async function begin(round: string): Promise<Pending> {
    const { now, walk } = walks.get(round) ?? { now: clock.now + self.skew, walk: undefined };
    const signal = new AbortController().signal;
    const step = await collector.observe({ api, round, now, memory, walk, signal }).catch((error: unknown) => {
      walks.delete(round);
      throw error;
    });
    return () => {
      const { facts, changes, memory: moved, onCommitted } = step.fold(memory);
      memory = moved;
      for (const { key, value } of changes) {
        if (value === null) rows.delete(key);
        else rows.set(key, value);
      }
      onCommitted?.();
      if (facts) shown = facts;
      if (step.more === undefined) walks.delete(round);
      else walks.set(round, { now, walk: step.more });
      return step.more === undefined;
    };
  }

  const self = {
    /** Skew of the agent's clock (ms). */
    skew: 0,
    shown: () => shown,
    rows,
    rowsOf: (kind: string) => [...rows.keys()].filter(key => key.startsWith(`${kind}/`)),
    /** Returns the time up to which life cycles have been evaluated. */
    watermark: (): number => JSON.parse(rows.get('checkpoint') ?? '{}').judgedTo,
    begin,
    /** Runs one step and returns whether the round is complete. */
    step: async (round: string): Promise<boolean> => (await begin(round))(),
    /**
     * Runs or continues a round. The agent is killed after `killAfter` steps; a step that was read but not committed is
     * lost.
     */
    async round(round: string, killAfter = Number.POSITIVE_INFINITY): Promise<void> {
      for (let steps = 0; ; steps += 1) {
        const fold = await begin(round);
        if (steps >= killAfter) return restart();
        if (fold()) return;
      }
    },
    /** Reads the log several times, `every` ms apart. */
    async run(times: number, every = 15 * SECOND): Promise<void> {
      for (let time = 0; time < times; time += 1) {
        clock.now += every;
        await self.round('tail');
      }
    },
    kill: restart,
    /** Restarts with other options. */
    reconfigure(other: object, services?: EventsServices): void {
      collector = create(other, services);
      restart();
    },
  };
  return self;
}

const add = (numbers: Iterable<number>) => [...numbers].reduce((a, b) => a + b, 0);

/** Returns the number of counted events of all destinations, or only of events in the given state. */
export function counted({ destinations }: EventsFacts, state?: EventState): number {
  const of = (events: Record<EventState, number>) => (state ? events[state] : add(Object.values(events)));
  return add([...destinations.values()].map(({ events }) => of(events)));
}

/** Returns the counted attempts of all destinations by result and status class, without zeros. */
export function answersOf({ destinations }: EventsFacts): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const { answers } of destinations.values()) {
    for (const [result, classes] of Object.entries(answers)) {
      for (const [name, count] of Object.entries(classes)) {
        if (count > 0) sums[`${result} ${name}`] = (sums[`${result} ${name}`] ?? 0) + count;
      }
    }
  }
  return sums;
}

/** Returns the number of counted messages that have ended. */
export const finished = ({ destinations }: EventsFacts) =>
  add([...destinations.values()].flatMap(tally => Object.values(tally.finished)));

/** Returns the number of messages tracked from creation to delivery. */
export const lives = ({ log }: EventsFacts) => add(log.timeToDeliver.counts);
