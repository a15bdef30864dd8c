import { BoundedMap } from '../../kit/bounded-map.ts';
import { hash64, hashedId } from '../../kit/hash.ts';
import { type DeliveryEvent, EVENT_STATES } from '../../model/message.ts';
import { familiesOf, optionalSample, toSeconds } from '../collector.ts';
import type { Routes } from '../routes.ts';
import { type Allowance, createTimetable, type ScheduleState, type TimeSpan } from './expectations.ts';
import type { KeptEvent } from './kept-event.ts';
import { MATCH_KEYS, type MatchKey, type Schedule } from './schedule-options.ts';

/** Repeated starts of a schedule. `at`: the latest one (ms since the Unix epoch). */
export interface DoubleStart {
  readonly count: number;
  readonly at: number;
}

/** Messages created within this time (ms) belong to one start: a URL group may list a URL twice. */
const ONE_START = 1000;
/** Another message for the same URL within this time (ms) is a second start, because schedules start at most once a minute. */
export const NEXT_START = 30_000;
/** Maximum number of recent starts, and maximum number of schedules with repeated starts. */
const MAX = 5000;

/** Finds schedules that start twice for the same time, by schedule id. */
function createDoubleStarts() {
  const starts = new BoundedMap<string, number>(MAX);
  const doubles = new BoundedMap<string, DoubleStart>(MAX);
  return {
    /** Returns the key of the start that an event shows: a hash of the URL, then the schedule id. */
    of: ({ state, schedule, url = '' }: DeliveryEvent): string | undefined =>
      state === 'created' && schedule !== undefined ? `${hash64(url).toString(16)} ${schedule}` : undefined,
    add(start: string, time: number): void {
      const apart = Math.abs(time - (starts.get(start) ?? Number.NEGATIVE_INFINITY));
      starts.set(start, time);
      if (apart <= ONE_START || apart >= NEXT_START) return;
      const id = start.slice(start.indexOf(' ') + 1);
      const { count, at } = doubles.get(id) ?? { count: 0, at: 0 };
      doubles.set(id, { count: count + 1, at: Math.max(at, time) });
    },
    facts: (): ReadonlyMap<string, DoubleStart> => new Map(doubles),
  };
}

/** Facts about one schedule. Times are in milliseconds since the Unix epoch. */
export interface ScheduleFacts extends Readonly<Omit<ScheduleState, 'open' | 'expectedTo'>> {
  readonly next: number | undefined;
}

/** Matches events to an account's schedules and tracks the expected starts. */
export type Schedules = ReturnType<typeof createSchedules>;

/** Maximum number of expected starts added in one step, which bounds the step's duration after a long pause. */
const MAX_AT_ONCE = 1000;

const ROW = 'schedule/';

const RELEVANT: ReadonlySet<string> = new Set(['created', 'delivered', 'failed']);

type OpenSchedule = ReturnType<typeof open>;

/** Opens a schedule with its stored state. A changed schedule of the same name starts from scratch. */
function open(schedule: Schedule, row: string | undefined) {
  const { name, match, cron, tz } = schedule;
  const id = hashedId([name, JSON.stringify(match), cron, tz], 16);
  const { id: storedId, ...stored } = JSON.parse(row ?? '{}') as ScheduleState & { readonly id?: string };
  const state: ScheduleState = storedId === id ? stored : { missed: 0, late: 0, open: [] };
  return { id, schedule, state, timetable: createTimetable(schedule, state) };
}

function createFinder(
  all: readonly OpenSchedule[],
  routes: Routes,
): (event: DeliveryEvent) => readonly string[] | undefined {
  if (all.length === 0) return () => undefined;
  const needsRoute = all.some(({ schedule: { match } }) => match.route !== undefined);
  return ({ state, schedule: scheduleId, labels, queue, topic, url }) => {
    if (!RELEVANT.has(state)) return undefined;
    const route = needsRoute && url !== undefined ? routes.of(url) : undefined;
    const values: Readonly<Record<MatchKey, string | readonly string[] | undefined>> = {
      ...{ scheduleId, label: labels, queue, topic, route },
    };
    const found = all.filter(({ schedule: { match } }) =>
      MATCH_KEYS.every(key => match[key] === undefined || [values[key]].flat().includes(match[key])),
    );
    return found.length > 0 ? found.map(({ id }) => id) : undefined;
  };
}

interface SchedulesOptions {
  readonly configured: readonly Schedule[];
  readonly stored: ReadonlyMap<string, string>;
  readonly routes: Routes;
  readonly touch: (key: string) => void;
}

export function createSchedules({ configured, stored, routes, touch }: SchedulesOptions) {
  const starts = createDoubleStarts();
  const all = configured.map(schedule => open(schedule, stored.get(schedule.name)));
  const find = createFinder(all, routes);
  const byName = new Map(all.map(one => [one.schedule.name, one]));
  const byId = new Map(all.map(one => [one.id, one]));
  for (const name of stored.keys()) if (!byName.has(name)) touch(`${ROW}${name}`);

  function change({ schedule: { name } }: OpenSchedule, ...changes: readonly boolean[]): void {
    if (changes.includes(true)) touch(`${ROW}${name}`);
  }

  function addEvent({ state, timetable }: OpenSchedule, event: KeptEvent, createdAt: number | undefined): boolean {
    const { time } = event;
    const later = (last: number | undefined) => Math.max(last ?? 0, time);
    switch (EVENT_STATES[event.state]) {
      case 'created':
        state.lastStarted = later(state.lastStarted);
        timetable.started(time);
        return true;
      case 'delivered':
        state.lastDelivered = later(state.lastDelivered);
        timetable.delivered(time, createdAt);
        return true;
      case 'failed':
        state.lastFailed = later(state.lastFailed);
        return true;
      default:
        return false;
    }
  }

  return {
    /** Returns the ids of an event's configured schedules and the start that it shows, if any. */
    of(event: DeliveryEvent): readonly string[] | undefined {
      const [ids, start] = [find(event), starts.of(event)];
      return start === undefined ? ids : [...(ids ?? []), start];
    },
    begin(now: number): void {
      for (const one of all) change(one, one.timetable.begin(now));
    },
    /** Adds an event of a scheduled message. Only delayed events may be out of order. `createdAt`: of the message, if known. */
    follow(event: KeptEvent, createdAt: number | undefined): void {
      for (const id of event.schedules ?? []) {
        const one = byId.get(id);
        // Keys of starts contain a space. Any other unknown id is that of a schedule which is no longer configured.
        if (!one && id.includes(' ')) starts.add(id, event.time);
        if (!one) continue;
        const allowance: Allowance = { left: MAX_AT_ONCE };
        change(one, one.timetable.expectFor(event.time, allowance), addEvent(one, event, createdAt));
      }
    },
    markUnread(span: TimeSpan): void {
      const allowance: Allowance = { left: MAX_AT_ONCE };
      for (const one of all) {
        const { timetable } = one;
        change(one, timetable.expectUntil(span.from - 1, allowance), timetable.markUnread(span));
      }
    },
    advanceTo(time: number): void {
      const allowance: Allowance = { left: MAX_AT_ONCE };
      for (const one of all) {
        change(one, one.timetable.expectUntil(time, allowance), one.timetable.close(time));
      }
    },
    facts: (): ReadonlyMap<string, ScheduleFacts> =>
      new Map(
        all.map(({ schedule: { name }, state: { open: _open, expectedTo: _to, ...state }, timetable }) => [
          name,
          { ...state, next: timetable.next() },
        ]),
      ),
    doubleStarts: starts.facts,
    row(name: string): string | null {
      const one = byName.get(name);
      return one ? JSON.stringify({ id: one.id, ...one.state }) : null;
    },
  };
}

interface AllScheduleFacts {
  readonly schedules: ReadonlyMap<string, ScheduleFacts>;
}

const { gauge, counter } = familiesOf<AllScheduleFacts>();

const perSchedule = ({ schedules }: AllScheduleFacts, numberOf: (facts: ScheduleFacts) => number | undefined) =>
  [...schedules].flatMap(([schedule, facts]) => optionalSample({ schedule }, numberOf(facts)));

export const scheduleFamilies = {
  scheduleStarted: gauge({
    name: 'delivery_schedule_last_started_timestamp_seconds',
    help: 'Latest start of the schedule. For a configured schedule: creation time of its latest message. Absent before the first start.',
    labels: ['schedule'],
    pick: facts => perSchedule(facts, ({ lastStarted }) => toSeconds(lastStarted)),
  }),
  scheduleDelivered: gauge({
    name: 'delivery_schedule_last_delivered_timestamp_seconds',
    help: 'Time of the latest delivery of the configured schedule. Absent before the first delivery.',
    labels: ['schedule'],
    pick: facts => perSchedule(facts, ({ lastDelivered }) => toSeconds(lastDelivered)),
  }),
  scheduleFailed: gauge({
    name: 'delivery_schedule_last_failed_timestamp_seconds',
    help: 'Time when a message of the configured schedule last failed permanently. Absent before the first such failure.',
    labels: ['schedule'],
    pick: facts => perSchedule(facts, ({ lastFailed }) => toSeconds(lastFailed)),
  }),
  scheduleNext: gauge({
    name: 'delivery_schedule_next_expected_timestamp_seconds',
    help: 'Next start that the service announces for the schedule, absent during a pause. For a configured schedule: the first expected start after the time up to which the agent has read the event log.',
    labels: ['schedule'],
    pick: facts => perSchedule(facts, ({ next }) => toSeconds(next)),
  }),
  scheduleMissed: counter({
    name: 'delivery_schedule_missed_total',
    help: 'Missed starts of the schedule: no start within two minutes of the expected time. For a configured schedule: no message within grace.',
    labels: ['schedule'],
    pick: facts => perSchedule(facts, ({ missed }) => missed),
  }),
  scheduleLate: counter({
    name: 'delivery_schedule_late_total',
    help: 'Late starts of the configured schedule. A start is late if none of its messages is delivered within the time endsWithin, counted from the creation of its first message.',
    labels: ['schedule'],
    pick: facts => perSchedule(facts, ({ late }) => late),
  }),
};
