import { z } from 'zod';
import { BoundedMap } from '../../kit/bounded-map.ts';
import { createOccurrences, type Occurrence } from '../../kit/cron.ts';
import { Duration, MINUTE } from '../../kit/duration.ts';
import { hashedId } from '../../kit/hash.ts';
import { AutoOrOff, intOption } from '../../kit/option.ts';
import { createYielder } from '../../kit/yielder.ts';
import type { Change } from '../../model/change.ts';
import type { ServiceSchedule } from '../../model/service.ts';
import { seriesDropped } from '../cap.ts';
import {
  AGENT_TIME,
  type Collector,
  defineKind,
  familiesOf,
  flagValue,
  optionalSample,
  type ServiceTime,
  toSeconds,
} from '../collector.ts';
import type { EventsFacts } from '../events/families.ts';
import type { Schedule } from '../events/schedule-options.ts';
import { type DoubleStart, NEXT_START, scheduleFamilies } from '../events/schedules.ts';

/** Stored results of the reads of one schedule. Times are in milliseconds since the Unix epoch. */
export interface ScheduleHistory extends Pick<ServiceSchedule, 'cron' | 'tz' | 'paused' | 'lastRunAt'> {
  readonly id: string;
  /** The first announced start that no read has evaluated. The service announces the next one even if this one is missed. */
  readonly dueAt?: number | undefined;
  readonly seenAt: number;
  /** Time of the first of the consecutive reads that reported a pause. */
  readonly pausedSince?: number | undefined;
  /** Whether the read before `pausedSince` reported an active schedule. */
  readonly sawPause?: boolean;
  /** Expected starts up to this time need no further evaluation. */
  readonly expectedTo: number;
  readonly missed: number;
  /** The last expected start that was missed. */
  readonly missedAt?: number | undefined;
  readonly unexpected: number;
  readonly unexpectedAt?: number | undefined;
  /** Number of repeated starts in the event log that have been added to `unexpected`. */
  readonly doubles?: number | undefined;
  /** Time of the first complete list without the schedule. */
  readonly goneSince?: number | undefined;
}

/** Time after which an expected start counts as missed (ms). */
const GRACE = 2 * MINUTE;
/** Maximum time until the service applies a change of a schedule (ms). */
const LOADING = MINUTE;
/** Maximum time by which a start precedes its expected time (ms). */
const EARLY = 2000;
/** Maximum number of expected starts evaluated in one read. The next read evaluates the rest. */
const MAX_AT_ONCE = 100;
/** Time after a missed start in which further starts may make up for it (ms). */
const MAKE_UP = 60 * MINUTE;

type OccurrenceAfter = ((time: number) => Occurrence | undefined) | undefined;

/** Evaluates the starts expected up to `at`: first the announced start, then starts of the cron expression. */
function addMissed(history: ScheduleHistory, announced: number | undefined, at: number, after: OccurrenceAfter) {
  let { expectedTo, missed, missedAt } = history;
  const from = firstExpected(history);
  let due = announced !== undefined && announced > from ? { at: announced, again: announced } : after?.(from);
  for (let left = MAX_AT_ONCE; due && due.again + GRACE <= at && left > 0; left -= 1) {
    [expectedTo, missedAt] = [due.at, due.at];
    missed += 1;
    due = after?.(due.at);
  }
  return { ...history, expectedTo, missed, missedAt };
}

const firstExpected = ({ expectedTo, lastRunAt = 0 }: ScheduleHistory) => Math.max(expectedTo, lastRunAt + EARLY);

/** Whether the schedule has started too early, or during a pause, since the earlier read. */
function isUnexpected(before: ScheduleHistory, row: ServiceSchedule, after: OccurrenceAfter): boolean {
  const { lastRunAt = 0 } = row;
  if (before.lastRunAt === undefined || lastRunAt <= before.lastRunAt) return false;
  if (row.paused && before.pausedSince !== undefined) return lastRunAt > before.pausedSince + LOADING;
  const isMakingUp = before.missedAt !== undefined && lastRunAt < before.missedAt + MAKE_UP;
  // `withDoubles` counts a second start within `NEXT_START`.
  const isInLog = lastRunAt < before.lastRunAt + NEXT_START;
  if (row.paused !== false || before.paused !== false || isMakingUp || isInLog) return false;
  const expected = [before.dueAt, after?.(before.lastRunAt + EARLY)?.at].filter(time => time !== undefined);
  return expected.length > 0 && expected.every(time => lastRunAt < time - EARLY);
}

/** Adds a row. `at`: time of the read by the service's clock. `after`: undefined if the expression is missing or unreadable. */
function followRow(
  before: ScheduleHistory | undefined,
  row: ServiceSchedule,
  at: number,
  after: OccurrenceAfter,
): ScheduleHistory {
  const { scheduleId: id, cron, tz, paused, nextRunAt: dueAt } = row;
  const known = before ?? { id, seenAt: at, expectedTo: at, missed: 0, unexpected: 0 };
  const isSame = before !== undefined && !before.goneSince && before.cron === cron && before.tz === tz;
  const isExtra = isSame && isUnexpected(before, row, after);
  const history: ScheduleHistory = {
    ...known,
    ...{ cron, tz, paused, dueAt },
    lastRunAt: Math.max(row.lastRunAt ?? 0, known.lastRunAt ?? 0) || undefined,
    pausedSince: paused ? (known.pausedSince ?? at) : undefined,
    sawPause: paused === true && (known.pausedSince === undefined ? known.paused === false : known.sawPause === true),
    unexpected: known.unexpected + Number(isExtra),
    unexpectedAt: isExtra ? row.lastRunAt : known.unexpectedAt,
    goneSince: undefined,
  };
  // Expect no start during a pause, nor soon after a change, which the service may not have applied yet.
  const isWatched = isSame && before.paused === false && paused === false;
  if (!isWatched) return { ...history, expectedTo: at + LOADING, missedAt: undefined };
  // If this row lacks the last start, but an earlier row had one, it is unknown whether the schedule started.
  const isReported = row.lastRunAt !== undefined || known.lastRunAt === undefined;
  const evaluated = isReported ? addMissed(history, before.dueAt, at, after) : history;
  const from = firstExpected(evaluated);
  const isDue = (time: number | undefined) => time !== undefined && time > from && time <= at;
  // Keep a past start within `GRACE` as due: the service announces only future starts.
  const pending = [before.dueAt, after?.(from)?.at].find(isDue);
  return pending === undefined ? evaluated : { ...evaluated, dueAt: pending };
}

/** Adds the repeated starts that the event log has shown since the last read. `count`: all since this process started. */
export function withDoubles(history: ScheduleHistory, { count, at }: DoubleStart): ScheduleHistory {
  const { doubles = 0, unexpected, unexpectedAt = 0 } = history;
  if (count === doubles) return history;
  const added = Math.max(0, count - doubles);
  return { ...history, doubles: count, unexpected: unexpected + added, unexpectedAt: Math.max(unexpectedAt, at) };
}

/** Whether the last expected start was missed, and the schedule has not started since. */
export const isMissing = ({ missedAt, lastRunAt = 0 }: ScheduleHistory) =>
  missedAt !== undefined && missedAt > lastRunAt + EARLY;

const options = z.strictObject({
  enabled: AutoOrOff.describe('`auto`: the list of schedules is read if the service offers it. `false`: never.'),
  every: Duration.prefault('5m').describe(
    'Interval between reads of the list of schedules. Each read takes one request.',
  ),
  maxSeries: intOption({ min: 1, max: 10_000, otherwise: 200 }).describe(
    'Maximum number of schedules with separate series and checks. Schedules that already have series keep them. The others follow in the order in which the service lists them.',
  ),
});

export type SchedulesOptions = z.output<typeof options>;

export interface SchedulesServices {
  /** Configured schedules. The event log is expected to contain their starts. */
  readonly schedules?: readonly Schedule[] | undefined;
  readonly serviceClock?: ServiceTime | undefined;
  /** Returns the committed repeated starts of the event log, by schedule id. */
  readonly doubleStarts?: (() => EventsFacts['doubleStarts'] | undefined) | undefined;
}

export interface ListedSchedule {
  /** Value of the label `schedule`: the configured name, else the id. */
  readonly name: string;
  /** Whether the schedule is configured: its starts are expected in the event log. */
  readonly isConfigured: boolean;
  readonly row: ServiceSchedule;
  readonly history: ScheduleHistory;
}

export interface ScheduleListFacts {
  /** Number of schedules in each state; undefined before the first read. */
  readonly states: Readonly<Record<'active' | 'paused', number>> | undefined;
  readonly listed: readonly ListedSchedule[];
  /** Schedules that disappeared from the complete lists within the last day. */
  readonly gone: readonly Pick<ListedSchedule, 'name' | 'history'>[];
  readonly beyondCap: number;
}

interface Memory {
  readonly histories: ReadonlyMap<string, ScheduleHistory>;
  readonly facts: ScheduleListFacts;
}

/** Time for which a removed schedule is kept (ms). */
const KEPT = 86_400_000;
/** The service may have cut off a list if its length is a multiple of this number. */
const PAGE = 100;

const ROW = 'schedule/';

/** Whether the last run failed: the service reports an error, or all messages of the run failed. Undefined if unknown. */
export function hasFailed({ error, lastRunStates: states }: ServiceSchedule): boolean | undefined {
  if (error !== undefined) return true;
  return states && states.fail > 0 && states.success + states.in_progress + states.unknown === 0;
}

const { gauge, counter } = familiesOf<ScheduleListFacts>();

const each = (all: readonly ListedSchedule[], numberOf: (schedule: ListedSchedule) => number | undefined) =>
  all.flatMap(schedule => optionalSample({ schedule: schedule.name }, numberOf(schedule)));
/** Schedules without expected starts in the event log. */
const own = ({ listed }: ScheduleListFacts) => listed.filter(({ isConfigured }) => !isConfigured);

const paused = gauge({
  name: 'delivery_schedule_paused',
  help: 'Whether the service reports the schedule as paused (1) or active (0).',
  labels: ['schedule'],
  pick: ({ listed }) => each(listed, ({ row }) => flagValue(row.paused)),
});

const families = {
  schedules: gauge({
    name: 'delivery_schedules',
    help: 'Schedules that the service lists, by state.',
    labels: ['state'],
    values: { state: ['active', 'paused'] },
    pick: ({ states }) => Object.entries(states ?? {}).map(([state, value]) => ({ labels: { state }, value })),
  }),
  paused,
  lastRunFailed: gauge({
    name: 'delivery_schedule_last_run_failed',
    help: 'Whether the last run of the schedule failed (1) or not (0). A run failed if the service reports an error or all its messages failed.',
    labels: ['schedule'],
    pick: ({ listed }) => each(listed, ({ row }) => flagValue(hasFailed(row))),
  }),
  unexpected: counter({
    name: 'delivery_schedule_unexpected_starts_total',
    help: 'Unexpected starts of the schedule: during a pause, too early, or a second start within 30 s. The agent detects second starts in the event log, but not around its own restart. It detects the others in the list of schedules, which shows at most one start between two reads.',
    labels: ['schedule'],
    pick: ({ listed }) => each(listed, ({ history }) => history.unexpected),
  }),
  scheduleStarted: gauge({
    ...scheduleFamilies.scheduleStarted,
    pick: facts => each(own(facts), ({ history }) => toSeconds(history.lastRunAt)),
  }),
  scheduleNext: gauge({
    ...scheduleFamilies.scheduleNext,
    pick: facts => each(own(facts), ({ row }) => (row.paused === false ? toSeconds(row.nextRunAt) : undefined)),
  }),
  scheduleMissed: counter({
    ...scheduleFamilies.scheduleMissed,
    pick: facts => each(own(facts), ({ history }) => history.missed),
  }),
  seriesDropped: gauge({
    ...seriesDropped,
    pick: ({ beyondCap }) => [{ labels: { family: paused.name }, value: beyondCap }],
  }),
};

export const scheduleList = defineKind({
  name: 'schedules',
  title: 'Schedules',
  configKey: 'schedules',
  isOptional: true,
  options,
  families,
  rounds: ({ every }: SchedulesOptions) => ({ schedules: { every, requests: 1, priority: 'background' } }),
  create: createScheduleList,
});

/** Creates a function that returns a row's `OccurrenceAfter`: undefined if the expression is missing or unreadable. */
function createCrons() {
  const known = new BoundedMap<string, ReturnType<typeof createOccurrences> | undefined>(1000);
  return ({ cron, tz = 'UTC' }: ServiceSchedule) => {
    if (cron === undefined) return undefined;
    const key = `${tz} ${cron}`;
    if (!known.has(key)) {
      try {
        const after = createOccurrences(cron, tz);
        known.set(key, after(0) && after);
      } catch {
        known.set(key, undefined);
      }
    }
    return known.get(key);
  };
}

function createScheduleList(
  { every, maxSeries }: SchedulesOptions,
  { schedules: configured = [], serviceClock = AGENT_TIME, doubleStarts }: SchedulesServices = {},
): Collector<ScheduleListFacts, Memory, never> {
  const crons = createCrons();
  const turns = createYielder();

  // A listed schedule would share the series of a configured schedule if its id were that schedule's name.
  const names = new Map([
    ...configured.map(({ name }) => [name, name] as const),
    ...configured.map(({ match, name }) => [match.scheduleId ?? name, name] as const),
  ]);
  const named = (id: string) => ({ name: names.get(id) ?? id, isConfigured: names.has(id) });

  /** Chooses at most `maxSeries` schedules, one for each name. Known schedules come first. */
  function choose(rows: readonly ServiceSchedule[], histories: Memory['histories']) {
    const isKnown = ({ scheduleId }: ServiceSchedule) => histories.has(scheduleId);
    const chosen = new Map<string, { row: ServiceSchedule } & ReturnType<typeof named>>();
    for (const row of [...rows.filter(isKnown), ...rows.filter(row => !isKnown(row))]) {
      const { name, isConfigured } = named(row.scheduleId);
      if (chosen.size < maxSeries && !chosen.has(name)) chosen.set(name, { row, name, isConfigured });
    }
    return [...chosen.values()];
  }

  /** Adds a list that was read at `at`. `isComplete`: whether it contains all existing schedules. */
  async function fold(
    { histories: before, facts }: Memory,
    rows: readonly ServiceSchedule[],
    isComplete: boolean,
    at: number,
  ): Promise<Memory> {
    const listed: ListedSchedule[] = [];
    for (const each of choose(rows, before)) {
      const id = each.row.scheduleId;
      const history = followRow(before.get(id), each.row, at, crons(each.row));
      const double = doubleStarts?.()?.get(id);
      listed.push({ ...each, history: double ? withDoubles(history, double) : history });
      await turns.pass();
    }
    const ids = new Set(rows.map(({ scheduleId }) => scheduleId));
    const missing = [...before.values()].filter(({ id }) => !ids.has(id));
    const kept = isComplete ? [] : facts.listed.filter(({ row }) => !ids.has(row.scheduleId));
    const histories = new Map(listed.map(({ history }) => [history.id, history]));
    for (const history of missing) {
      const goneSince = history.goneSince ?? (isComplete ? at : undefined);
      if (goneSince === undefined || at - goneSince < KEPT) histories.set(history.id, { ...history, goneSince });
    }
    const count = (paused: boolean) => rows.filter(row => row.paused === paused).length;
    const states = { active: count(false), paused: count(true) };
    const beyondCap = Math.max(0, rows.length - listed.length);
    return { histories, facts: { states, listed: [...listed, ...kept], gone: goneOf(histories), beyondCap } };
  }

  const goneOf = (histories: Memory['histories']) =>
    [...histories.values()].flatMap(history =>
      history.goneSince === undefined ? [] : { name: named(history.id).name, history },
    );

  return {
    ...scheduleList,
    rounds: scheduleList.rounds({ enabled: 'auto', every, maxSeries }),
    restore(rows) {
      const all = [...rows].flatMap(([key, row]) => {
        if (!key.startsWith(ROW)) return [];
        // After a restart, the event log counts repeated starts from 0.
        return { ...(JSON.parse(row) as ScheduleHistory), doubles: 0 };
      });
      const histories = new Map(all.map(history => [history.id, history]));
      const current = all.filter(({ goneSince }) => goneSince === undefined);
      const listed = choose(
        current.map(history => ({ ...history, scheduleId: history.id, labels: [] })),
        histories,
      ).map(each => ({ ...each, history: histories.get(each.row.scheduleId) as ScheduleHistory }));
      return { histories, facts: { states: undefined, listed, gone: goneOf(histories), beyondCap: 0 } };
    },
    recall: ({ facts }) => facts,
    async observe({ api, memory, now, signal }) {
      const rows = new Map<string, ServiceSchedule>();
      const rejected = await api.schedules(signal, row => rows.set(row.scheduleId, row));
      const isComplete = rejected === 0 && (rows.size === 0 || rows.size % PAGE !== 0);
      // No other round of this collector changes its memory.
      const next = await fold(memory, [...rows.values()], isComplete, serviceClock.at(now));
      return {
        fold: () => ({ memory: next, facts: next.facts, changes: changesOf(memory.histories, next.histories) }),
        isPartial: rejected > 0 || rows.values().some(({ isIncomplete }) => isIncomplete),
        more: undefined,
      };
    },
  };
}

function changesOf(before: Memory['histories'], after: Memory['histories']): Change[] {
  const text = (history: ScheduleHistory | undefined) => (history === undefined ? null : JSON.stringify(history));
  return [...new Set([...before.keys(), ...after.keys()])].flatMap(id => {
    const value = text(after.get(id));
    return value === text(before.get(id)) ? [] : { key: `${ROW}${hashedId([id], 16)}`, value };
  });
}
