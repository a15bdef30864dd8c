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

/** Publishes the messages of schedules at their cron times. */
export class EmulatedSchedules {
  readonly #agenda: Agenda;
  readonly #fateOf: (scheduleId: string) => ScheduleFate;
  readonly #publish: PublishRun;
  readonly #open = new Map<string, OpenSchedule>();

  constructor(agenda: Agenda, fateOf: (scheduleId: string) => ScheduleFate, publish: PublishRun) {
    this.#agenda = agenda;
    this.#fateOf = fateOf;
    this.#publish = publish;
  }

  /** Plans the next start, also of a known schedule, whose plan was lost. */
  plan(scheduleId: string, cron: string, destination: Destination): void {
    const [, tz = 'UTC', fields = ''] = CRON.exec(cron) ?? [];
    const occurrenceAfter = createOccurrences(fields, tz);
    const schedule = this.#open.get(scheduleId) ?? {
      destination,
      createdAt: this.#agenda.now,
      next: after => occurrenceAfter(after)?.at,
      paused: false,
      isRemoved: false,
      lastRunAt: undefined,
      states: new Map(),
    };
    this.#open.set(scheduleId, schedule);
    this.#planNext(scheduleId, schedule);
  }

  #planNext(scheduleId: string, schedule: OpenSchedule): void {
    const next = schedule.next(this.#agenda.now);
    if (next === undefined) return;
    this.#agenda.at(next, () => {
      this.#start(scheduleId, schedule);
      this.#planNext(scheduleId, schedule);
    });
  }

  #start(scheduleId: string, schedule: OpenSchedule): void {
    const fate = this.#fateOf(scheduleId);
    if (schedule.paused || fate === 'stops' || fate === 'paused' || this.#isRemoved(scheduleId)) return;
    const run = () => {
      schedule.lastRunAt = this.#agenda.now;
      const ids = this.#publish(schedule.destination, fate === 'fails');
      schedule.states = new Map(ids.map(id => [id, 'IN_PROGRESS']));
    };
    run();
    if (fate === 'twice') this.#agenda.at(this.#agenda.now + TWICE_AFTER_MS, run);
  }

  #isRemoved(scheduleId: string): boolean {
    return this.#open.get(scheduleId)?.isRemoved !== false || this.#fateOf(scheduleId) === 'deleted';
  }

  /** Records the end of a message. */
  ended({ fields, messageId }: EmulatedMessage, state: LogState): void {
    const states = this.#open.get(fields.scheduleId ?? '')?.states;
    if (states?.has(messageId)) states.set(messageId, state === 'delivered' ? 'SUCCESS' : 'FAIL');
  }

  /** Pauses, resumes or removes a schedule. Returns false for an unknown one. */
  change(scheduleId: string, change: 'pause' | 'resume' | 'remove'): boolean {
    const schedule = this.#open.get(scheduleId);
    if (!schedule || this.#isRemoved(scheduleId)) return false;
    if (change === 'remove') schedule.isRemoved = true;
    else schedule.paused = change === 'pause';
    return true;
  }

  /** Lists the schedules. The next start also moves while a schedule is paused. */
  list(): readonly ScheduleDetail[] {
    return [...this.#open].flatMap(([scheduleId, { next, ...schedule }]) => {
      if (this.#isRemoved(scheduleId)) return [];
      const paused = schedule.paused || this.#fateOf(scheduleId) === 'paused';
      return [{ ...schedule, paused, nextRunAt: next(this.#agenda.now) }];
    });
  }
}
