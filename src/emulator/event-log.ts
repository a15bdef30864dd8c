import { type EventState, type LoggedEvent, STATES } from './message.ts';
import { type Position, Timeline } from './timeline.ts';

export type StateCounts = Record<EventState, number>;

/** Which events to count; times in milliseconds, both ends included. */
export interface CountRange {
  readonly from?: number;
  readonly to?: number;
  /** Only those whose time is one of these. */
  readonly within?: ((time: number) => boolean) | undefined;
}

const noneOfAny = () => Object.fromEntries(STATES.map(state => [state, 0])) as StateCounts;

/** What happened, each event once, listed or not; and how much of it happened since the log began. */
export class EventLog extends Timeline<LoggedEvent> {
  readonly #total = noneOfAny();

  /** How many events were ever added by state, those among them that are kept no more. */
  get total(): Readonly<StateCounts> {
    return { ...this.#total };
  }

  override add(time: number, event: LoggedEvent): Position {
    this.#total[event.state]++;
    return super.add(time, event);
  }

  override addAll(rows: readonly (readonly [time: number, event: LoggedEvent])[]): void {
    for (const [, { state }] of rows) this.#total[state]++;
    super.addAll(rows);
  }

  /** How many events are kept, by state; each is looked at. */
  count({ from = 0, to = Number.POSITIVE_INFINITY, within }: CountRange = {}): StateCounts {
    const counts = noneOfAny();
    this.forEach(({ state }, time) => {
      if (time >= from && time <= to && (!within || within(time))) counts[state]++;
    });
    return counts;
  }
}
