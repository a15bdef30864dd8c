import { createEvents, type EventsFacts, type EventsServices, events } from '../../../src/collectors/events/events.ts';
import type { TraceOptions } from '../../../src/collectors/events/traces.ts';
import type { EventState } from '../../../src/model/message.ts';
import type { Reader } from '../../../src/upstream/api.ts';
import type { TrueEvent } from '../../support/event-truth.ts';

export const SECOND = 1000;
export const MINUTE = 60_000;
export const HOUR = 3_600_000;

/** Who reads on for ever would never give a test its time-out. */
const MOST_REQUESTS = 100_000;

/** An event and when it comes into the log. Times: milliseconds. */
export interface LoggedEvent extends TrueEvent {
  readonly listedAt: number;
  /** The log has two rows of it. */
  readonly twice?: boolean;
  readonly url?: string;
  readonly topic?: string;
  readonly schedule?: string;
  readonly label?: string;
  readonly queue?: string;
}

interface Spacing extends Pick<LoggedEvent, 'twice' | 'url' | 'topic' | 'schedule' | 'label' | 'queue'> {
  readonly wait?: number;
  readonly late?: number;
}

export interface LogShape {
  /** Rows of a page. */
  readonly page?: number;
  readonly order?: 'up' | 'down' | 'mixed';
  /** Each page begins with the row that the one before it ended with. */
  readonly seam?: boolean;
  /** Milliseconds that go by with each page. */
  readonly tick?: number;
  /** Bounds of a range that the service does not heed. */
  readonly ignores?: readonly ('from' | 'to')[];
  /** Pages without a row that go before each list. */
  readonly empty?: number;
}

/** A log that lists events late, twice, in any order of pages, forgets, fails, and goes on while it is read. */
export function createLog(shape: LogShape = {}) {
  const { page = 1000, order = 'down', seam = false, tick = 0, ignores = [], empty = 0 } = shape;
  const log: LoggedEvent[] = [];
  const clock = { now: 1_700_000_000_000 };
  const service = {
    /** Events that are older are gone, milliseconds. */
    keeps: Number.POSITIVE_INFINITY,
    /** The request with this number fails, once. */
    failsAt: 0,
    /** Whether the row of an event can be read. */
    isReadable: (_event: LoggedEvent) => true,
    requests: 0,
    /** Rows of all answers. */
    rows: 0,
    /** Every range that was asked for. */
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
    if (service.requests > MOST_REQUESTS) throw new Error(`more than ${MOST_REQUESTS} requests`);
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
      // Each page is of the log as it is when that page is asked for; what was listed behind its place is missed.
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
    /** Adds one message's events, `wait` milliseconds apart, each listed `late` after it happened. */
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

/** What a fold needs to be done; gives whether the round is complete. */
type Pending = () => boolean;

/** An agent on that log that may be killed between any two steps, its uncommitted work lost. */
export function createAgent(
  { api, clock }: Pick<FakeLog, 'api' | 'clock'>,
  chosen: object = {},
  backfill = 0,
  traces?: TraceOptions,
) {
  const create = (options: object, services: EventsServices = {}) =>
    createEvents(events.options.parse(options), { backfill, traces, ...services });
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
      const { facts, changes, memory: moved } = step.fold(memory);
      memory = moved;
      for (const { key, value } of changes) {
        if (value === null) rows.delete(key);
        else rows.set(key, value);
      }
      if (facts) shown = facts;
      if (step.more === undefined) walks.delete(round);
      else walks.set(round, { now, walk: step.more });
      return step.more === undefined;
    };
  }

  const self = {
    /** Milliseconds by which the agent's clock is ahead. */
    skew: 0,
    shown: () => shown,
    rows,
    rowsOf: (kind: string) => [...rows.keys()].filter(key => key.startsWith(`${kind}/`)),
    /** Lives are followed until here. */
    watermark: (): number => JSON.parse(rows.get('checkpoint') ?? '{}').judgedTo,
    begin,
    /** One step; says whether the round is complete. */
    step: async (round: string): Promise<boolean> => (await begin(round))(),
    /** A round, or the rest of one. It is killed after so many steps; a step that was read and not committed is lost. */
    async round(round: string, killAfter = Number.POSITIVE_INFINITY): Promise<void> {
      for (let steps = 0; ; steps += 1) {
        const fold = await begin(round);
        if (steps >= killAfter) return restart();
        if (fold()) return;
      }
    },
    /** Reads the log so many times, `every` milliseconds apart. */
    async run(times: number, every = 15 * SECOND): Promise<void> {
      for (let time = 0; time < times; time += 1) {
        clock.now += every;
        await self.round('tail');
      }
    },
    kill: restart,
    /** Starts again with other options. */
    reconfigure(other: object, services?: EventsServices): void {
      collector = create(other, services);
      restart();
    },
  };
  return self;
}

const add = (numbers: Iterable<number>) => [...numbers].reduce((a, b) => a + b, 0);

/** Events that are counted, of all destinations; `state`: of one state. */
export function counted({ destinations }: EventsFacts, state?: EventState): number {
  const of = (events: Record<EventState, number>) => (state ? events[state] : add(Object.values(events)));
  return add([...destinations.values()].map(({ events }) => of(events)));
}

/** Attempts that are counted, of all destinations, by result and class of status; those that there were. */
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

/** Messages that are counted as ended. */
export const finished = ({ destinations }: EventsFacts) =>
  add([...destinations.values()].flatMap(tally => Object.values(tally.finished)));

/** Messages whose whole lives are known, from their creation until they were delivered. */
export const lives = ({ log }: EventsFacts) => add(log.timeToDeliver.counts);
