import { hashedId } from '../../kit/hash.ts';
import { counter, gauge, type Sample } from '../../metrics/family.ts';
import { type DeliveryEvent, EVENT_STATES } from '../../model/message.ts';
import type { Routes } from '../routes.ts';
import { type Allowance, createTimetable, type ScheduleState, type TimeSpan, type Timetable } from './expectations.ts';
import type { KeptEvent } from './kept-event.ts';
import { MATCH_KEYS, type MatchKey, type Schedule } from './schedule-options.ts';

/** Facts about one schedule. Times are in milliseconds since the Unix epoch. */
export interface ScheduleFacts extends Readonly<Omit<ScheduleState, 'open' | 'expectedTo'>> {
  readonly next: number | undefined;
}

/** Matches events to an account's schedules and tracks the expected starts. */
export type Schedules = ReturnType<typeof createSchedules>;

/** Maximum number of expectations added in one step, which bounds the duration of a step after a long pause. */
const MAX_AT_ONCE = 1000;

const ROW = 'schedule/';

/** States of events that change a schedule. */
const RELEVANT: ReadonlySet<string> = new Set(['created', 'delivered', 'failed']);

interface OpenSchedule {
  readonly id: string;
  readonly schedule: Schedule;
  readonly state: ScheduleState;
  readonly timetable: Timetable;
}

/** Opens a schedule with its stored state. A changed schedule of the same name starts from scratch. */
function open(schedule: Schedule, row: string | undefined): OpenSchedule {
  const { name, match, cron, tz } = schedule;
  const id = hashedId([name, JSON.stringify(match), cron, tz], 16);
  const { id: storedId, ...stored } = JSON.parse(row ?? '{}') as ScheduleState & { readonly id?: string };
  const state: ScheduleState = storedId === id ? stored : { missed: 0, late: 0, open: [] };
  return { id, schedule, state, timetable: createTimetable(schedule, state) };
}

const readersOf = (routes: Routes): Readonly<Record<MatchKey, (event: DeliveryEvent) => string | undefined>> => ({
  scheduleId: ({ schedule }) => schedule,
  label: ({ label }) => label,
  queue: ({ queue }) => queue,
  topic: ({ topic }) => topic,
  route: ({ url }) => (url === undefined ? undefined : routes.of(url)),
});

const keyOf = (match: Schedule['match']) => MATCH_KEYS.find(key => match[key] !== undefined);

/** Returns a function that finds an event's schedules by their most specific key and compares the other keys. */
function createFinder(
  all: readonly OpenSchedule[],
  routes: Routes,
): (event: DeliveryEvent) => readonly string[] | undefined {
  if (all.length === 0) return () => undefined;
  const readers = readersOf(routes);
  const byKey = Map.groupBy(all, ({ schedule: { match } }) => keyOf(match));
  const tables = [...byKey].flatMap(([key, ones]) =>
    key === undefined ? [] : [[key, Map.groupBy(ones, ({ schedule: { match } }) => match[key])] as const],
  );
  const matches = (match: Schedule['match'], event: DeliveryEvent) =>
    MATCH_KEYS.every(key => match[key] === undefined || match[key] === readers[key](event));
  return event => {
    if (!RELEVANT.has(event.state)) return undefined;
    let ids: string[] | undefined;
    for (const [key, table] of tables) {
      for (const { id, schedule } of table.get(readers[key](event)) ?? []) {
        if (matches(schedule.match, event)) ids = [...(ids ?? []), id];
      }
    }
    return ids;
  };
}

interface SchedulesOptions {
  readonly configured: readonly Schedule[];
  readonly stored: ReadonlyMap<string, string>;
  readonly routes: Routes;
  readonly touch: (key: string) => void;
}

export function createSchedules({ configured, stored, routes, touch }: SchedulesOptions) {
  const all = configured.map(schedule => open(schedule, stored.get(schedule.name)));
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
    /** Returns the ids of the schedules that an event affects; undefined if it affects no schedule. */
    of: createFinder(all, routes),
    /** Starts the expectations of new schedules at `now`. */
    begin(now: number): void {
      for (const one of all) {
        one.state.since ??= now;
        change(one, one.timetable.begin(now));
      }
    },
    /** Adds an event of a scheduled message. Only delayed events may be out of order. `createdAt`: creation time of the message. */
    follow(event: KeptEvent, createdAt: number | undefined): void {
      for (const id of event.schedules ?? []) {
        const one = byId.get(id);
        // The schedule is no longer configured.
        if (!one) continue;
        const allowance: Allowance = { left: MAX_AT_ONCE };
        change(one, one.timetable.expectFor(event.time, allowance), addEvent(one, event, createdAt));
      }
    },
    /** Marks a span of the log as incompletely read. */
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
    row(name: string): string | null {
      const one = byName.get(name);
      return one ? JSON.stringify({ id: one.id, ...one.state }) : null;
    },
  };
}

const READ = 'read in the background. Absent until there is one.';

export const scheduleFamilies = {
  scheduleStarted: gauge(
    'delivery_schedule_last_started_timestamp_seconds',
    `Creation time of the latest message of the schedule, ${READ}`,
    ['schedule'],
  ),
  scheduleDelivered: gauge(
    'delivery_schedule_last_delivered_timestamp_seconds',
    `Time of the latest delivery of the schedule, ${READ}`,
    ['schedule'],
  ),
  scheduleFailed: gauge(
    'delivery_schedule_last_failed_timestamp_seconds',
    `Time at which the latest message of the schedule failed permanently, ${READ}`,
    ['schedule'],
  ),
  scheduleNext: gauge(
    'delivery_schedule_next_expected_timestamp_seconds',
    'Next expected start of the schedule after the part of the log read in the background.',
    ['schedule'],
  ),
  scheduleMissed: counter(
    'delivery_schedule_missed_total',
    'Expected starts of the schedule without a message created within grace, computed in the background.',
    ['schedule'],
  ),
  scheduleLate: counter(
    'delivery_schedule_late_total',
    'Starts of the schedule without a delivery within endsWithin after the first message’s creation, computed in the background.',
    ['schedule'],
  ),
};

export function scheduleSamples(facts: ReadonlyMap<string, ScheduleFacts>) {
  const each = (value: (facts: ScheduleFacts) => number | undefined): Sample<'schedule'>[] =>
    [...facts].flatMap(([schedule, facts]) => {
      const shown = value(facts);
      return shown === undefined ? [] : [{ labels: { schedule }, value: shown }];
    });
  const counted = (value: (facts: ScheduleFacts) => number): Sample<'schedule'>[] =>
    [...facts].map(([schedule, facts]) => ({
      labels: { schedule },
      value: value(facts),
      ...(facts.since === undefined ? {} : { since: facts.since }),
    }));
  const seconds = (ms: number | undefined) => (ms === undefined ? undefined : ms / 1000);
  return {
    scheduleStarted: each(({ lastStarted }) => seconds(lastStarted)),
    scheduleDelivered: each(({ lastDelivered }) => seconds(lastDelivered)),
    scheduleFailed: each(({ lastFailed }) => seconds(lastFailed)),
    scheduleNext: each(({ next }) => seconds(next)),
    scheduleMissed: counted(({ missed }) => missed),
    scheduleLate: counted(({ late }) => late),
  };
}
