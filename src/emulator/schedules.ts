import { createOccurrences } from '../kit/cron.ts';
import type { Agenda } from './agenda.ts';
import type { Destination } from './destinations.ts';
import type { EmulatedMessage, LogState } from './message.ts';
import type { Scenario } from './scenarios.ts';

/** How a schedule deviates at the moment; undefined if it behaves as usual. */
export type ScheduleFate = ReturnType<NonNullable<Scenario['schedule']>>;

interface OpenSchedule {
  readonly destination: Destination;
  readonly createdAt: number;
  readonly next: (after: number) => number | undefined;
  paused: boolean;
  isRemoved: boolean;
  lastRunAt: number | undefined;
  /** States of the messages of the last run. */
  states: Map<string, 'IN_PROGRESS' | 'SUCCESS' | 'FAIL'>;
}

/** A row of the list. Times in ms since the Unix epoch. */
export interface ScheduleDetail extends Readonly<Omit<OpenSchedule, 'next' | 'isRemoved'>> {
  readonly nextRunAt: number | undefined;
}

/** Publishes the messages of one run and returns their ids. */
type PublishRun = (destination: Destination, fails: boolean) => readonly string[];

/** Delay of a second start for the same time (ms). */
const TWICE_AFTER_MS = 1500;

const CRON = /^(?:CRON_TZ=(\S+) )?(.+)$/;

export type EmulatedSchedules = ReturnType<typeof createSchedulePlan>;

/** Publishes the messages of schedules at their cron times. */
export function createSchedulePlan(agenda: Agenda, fateOf: (scheduleId: string) => ScheduleFate, publish: PublishRun) {
  const open = new Map<string, OpenSchedule>();

  const isRemoved = (scheduleId: string) =>
    open.get(scheduleId)?.isRemoved !== false || fateOf(scheduleId) === 'deleted';

  function start(scheduleId: string, schedule: OpenSchedule): void {
    const fate = fateOf(scheduleId);
    if (schedule.paused || fate === 'stops' || fate === 'paused' || isRemoved(scheduleId)) return;
    const run = () => {
      schedule.lastRunAt = agenda.now;
      const ids = publish(schedule.destination, fate === 'fails');
      schedule.states = new Map(ids.map(id => [id, 'IN_PROGRESS']));
    };
    run();
    if (fate === 'twice') agenda.at(agenda.now + TWICE_AFTER_MS, run);
  }

  function planNext(scheduleId: string, schedule: OpenSchedule): void {
    const next = schedule.next(agenda.now);
    if (next === undefined) return;
    agenda.at(next, () => {
      start(scheduleId, schedule);
      planNext(scheduleId, schedule);
    });
  }

  return {
    /** Plans the next start, also of a known schedule, whose plan was lost. */
    plan(scheduleId: string, cron: string, destination: Destination): void {
      const [, tz = 'UTC', fields = ''] = CRON.exec(cron) ?? [];
      const occurrenceAfter = createOccurrences(fields, tz);
      const schedule = open.get(scheduleId) ?? {
        destination,
        createdAt: agenda.now,
        next: after => occurrenceAfter(after)?.at,
        paused: false,
        isRemoved: false,
        lastRunAt: undefined,
        states: new Map(),
      };
      open.set(scheduleId, schedule);
      planNext(scheduleId, schedule);
    },
    /** Records the end of a message. */
    ended({ fields, messageId }: EmulatedMessage, state: LogState): void {
      const states = open.get(fields.scheduleId ?? '')?.states;
      if (states?.has(messageId)) states.set(messageId, state === 'delivered' ? 'SUCCESS' : 'FAIL');
    },
    /** Pauses, resumes or removes a schedule. Returns false for an unknown one. */
    change(scheduleId: string, change: 'pause' | 'resume' | 'remove'): boolean {
      const schedule = open.get(scheduleId);
      if (!schedule || isRemoved(scheduleId)) return false;
      if (change === 'remove') schedule.isRemoved = true;
      else schedule.paused = change === 'pause';
      return true;
    },
    /** Lists the schedules. The next start also moves while a schedule is paused. */
    list: (): readonly ScheduleDetail[] =>
      [...open].flatMap(([scheduleId, { next, ...schedule }]) => {
        if (isRemoved(scheduleId)) return [];
        const paused = schedule.paused || fateOf(scheduleId) === 'paused';
        return [{ ...schedule, paused, nextRunAt: next(agenda.now) }];
      }),
  };
}
