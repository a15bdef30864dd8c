import { type DlqSeed, type EventSeed, messageFrom } from './added.ts';
import type { EmulatedClock } from './clock.ts';
import { dlqIdOf, positionOf } from './dead-letter.ts';
import { type DlqEntry, type EventState, type LoggedEvent, STATES } from './message.ts';
import { fillPast } from './past.ts';
import { messageId } from './random.ts';
import { type DlqRow, dlqRow, type EventRow, eventRow } from './rows.ts';
import { scenarioNamed } from './scenarios/index.ts';
import { Timeline } from './timeline.ts';
import { createWorkload, LONGEST_CATCH_UP_MS, type Workload } from './workload.ts';

export interface StateOptions {
  readonly clock: EmulatedClock;
  readonly seed: number;
  readonly scenario: string;
  /** Milliseconds of workload that have happened at the start; at most what the event log keeps. */
  readonly history: number;
  /** How many dead letters are older than the workload. */
  readonly dlqEntries: number;
}

/** How long an event is kept, in milliseconds; longer would only cost memory (some 20,000 events an hour). */
export const LOG_RETENTION_MS = LONGEST_CATCH_UP_MS;

/** How long a dead letter is kept, in milliseconds: three days, as in the service's free plan. */
export const DLQ_RETENTION_MS = 72 * 3_600_000;

/** Keeps memory bounded when nobody clears the dead letters, or a test adds events without end. */
const MOST_DEAD_LETTERS = 200_000;
const MOST_EVENTS = 1_000_000;

/**
 * Everything the emulator knows. It moves on when it is asked, up to the time of its clock, and not by itself. What it
 * counts for tests it counts row by row, without the code that answers requests.
 */
export class EmulatorState {
  readonly #clock: EmulatedClock;
  readonly #dlq = new Timeline<DlqEntry>();
  readonly #log = new Timeline<LoggedEvent>();
  readonly #workload: Workload;
  readonly #setWaitlists = new Map<string, number>();
  readonly #calls = new Map<string, number>();
  readonly #seed: number;
  #added = 0;

  constructor({ clock, seed, scenario, history, dlqEntries }: StateOptions) {
    const now = clock.now();
    const start = now - Math.min(Math.max(0, history), LOG_RETENTION_MS);
    const [dlq, log] = [this.#dlq, this.#log];
    this.#clock = clock;
    this.#seed = seed;
    const expire = (time: number) => {
      log.dropEarliest(time - LOG_RETENTION_MS, MOST_EVENTS);
      dlq.dropEarliest(time - DLQ_RETENTION_MS, MOST_DEAD_LETTERS + dlqEntries);
    };
    fillPast({ seed, entries: dlqEntries, from: now - DLQ_RETENTION_MS, to: start, dlq });
    this.#workload = createWorkload({ start, seed, scenario: scenarioNamed(scenario), log, dlq, expire });
    this.advanceTo(now);
  }

  /** Lets everything happen until this emulated time; an earlier time does nothing. */
  advanceTo(now: number): void {
    this.#workload.advanceTo(now);
  }

  /** The rows as of now, for whoever answers requests. */
  current(): { now: number; dlq: Timeline<DlqEntry>; log: Timeline<LoggedEvent> } {
    const now = this.#clock.now();
    this.advanceTo(now);
    return { now, dlq: this.#dlq, log: this.#log };
  }

  /** Waitlist sizes by flow-control key. */
  waitlists(): Map<string, number> {
    this.current();
    return new Map([...this.#workload.waitlists(), ...this.#setWaitlists]);
  }

  /** Requests so far by endpoint, such as `GET /v2/dlq`; whatever is none counts as `other`. */
  calls(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#calls);
  }

  countCall(endpoint: string): void {
    this.#calls.set(endpoint, (this.#calls.get(endpoint) ?? 0) + 1);
  }

  /** How many dead letters there are, or how many match. */
  countDlq(match?: (row: DlqRow) => boolean): number {
    let matching = 0;
    this.current().dlq.forEach((entry, time, seq) => {
      if (!match || match(dlqRow(entry, time, seq))) matching++;
    });
    return matching;
  }

  /** How many events there are by state, of a time range in milliseconds, both ends included. */
  countEvents({ from = 0, to = Number.POSITIVE_INFINITY } = {}): Record<EventState, number> {
    const counts = Object.fromEntries(STATES.map(state => [state, 0])) as Record<EventState, number>;
    this.current().log.forEach(({ state }, time) => {
      if (time >= from && time <= to) counts[state]++;
    });
    return counts;
  }

  /** Every dead letter, earliest first. */
  dlqRows(): DlqRow[] {
    const rows: DlqRow[] = [];
    this.current().dlq.forEach((entry, time, seq) => {
      rows.push(dlqRow(entry, time, seq));
    });
    return rows;
  }

  /** Every event of the log, earliest first. */
  eventRows(): EventRow[] {
    const rows: EventRow[] = [];
    this.current().log.forEach((event, time) => {
      rows.push(eventRow(event, time));
    });
    return rows;
  }

  /** Adds a dead letter, entered now unless said otherwise, and gives its dlqId. Nothing but its retention removes it. */
  addDlqEntry({ enteredAt = this.#clock.now(), responseStatus = 500, ...row }: DlqSeed = {}): string {
    const message = messageFrom(row, this.#nextId(), enteredAt);
    return dlqIdOf(this.current().dlq.add(enteredAt, { message, responseStatus }));
  }

  /** Adds an event, CREATED and of now unless said otherwise. */
  addEvent(row: EventSeed = {}): void {
    const { time = this.#clock.now(), state = 'created', responseStatus, error, nextDeliveryTime, ...rest } = row;
    const message = messageFrom(rest, this.#nextId(), time);
    this.current().log.add(time, { message, state, responseStatus, error, nextDeliveryTime });
  }

  /** Lists a flow-control key with this many waiting, whatever the workload does; undefined ends that. */
  setWaitlist(key: string, size: number | undefined): void {
    if (size === undefined) this.#setWaitlists.delete(key);
    else this.#setWaitlists.set(key, size);
  }

  /** Removes a dead letter; false when there is none of this dlqId. */
  removeDlqEntry(dlqId: string): boolean {
    const position = positionOf(dlqId);
    return position !== undefined && this.current().dlq.remove(position);
  }

  #nextId(): string {
    return messageId(this.#seed, 't', this.#added++);
  }
}
