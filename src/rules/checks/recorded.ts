import { type EventsFacts, eventFamilies } from '../../collectors/index.ts';
import type { HourlyValues } from '../../history/hours.ts';
import { HOUR, MINUTE } from '../../kit/duration.ts';
import type { CheckInput } from './account.ts';
import { finishedOf, OVERDUE_PAUSED, overduePausedTotal } from './burns.ts';
import { highestSettled, SETTLED } from './dead-letters.ts';
import { attemptsOf, destinationsOf, messagesOf } from './messages.ts';

type Ended = Readonly<Record<'failed' | 'delivered', number>>;

/** Time for which attempts to a destination are recorded after the last failed one (ms). */
const RECORDED_FOR = 20 * MINUTE;

/**
 * Selects the values of an account that only checks need, in addition to the recorded families. An account may have many
 * destinations: values are recorded only for failing ones.
 */
export function createRecordedForChecks() {
  let errors: ReadonlyMap<string, number> = new Map();
  let failedAt = new Map<string, number>();
  /** Numbers of ended messages by destination when the last hourly values were recorded. */
  let ended: ReadonlyMap<string, Ended> = new Map();

  /** Whether messages only failed since the last hourly values, or more have failed since a value recorded in the last day. */
  function isFailing(destination: string, { failed, delivered }: Ended, input: CheckInput) {
    const last = ended.get(destination);
    if (last && failed > last.failed && delivered === last.delivered) return true;
    const [first] = input.recent(messagesOf('failed', destination), 24 * HOUR);
    return first !== undefined && failed > first.value;
  }

  return {
    /** Returns the numbers of attempts by failing destination, which every sample contains. */
    attempts(facts: EventsFacts | undefined, now: number): ReadonlyMap<string, number> {
      const all = destinationsOf(facts);
      for (const [destination, { events }] of all) {
        if (events.error > (errors.get(destination) ?? events.error)) failedAt.set(destination, now);
      }
      errors = new Map(all.map(([destination, { events }]) => [destination, events.error]));
      failedAt = new Map([...failedAt].filter(([, at]) => now - at <= RECORDED_FOR));
      const failing = all.filter(([destination]) => failedAt.has(destination));
      return new Map(
        failing.flatMap(([destination, { events }]) => [
          [attemptsOf('error', destination), events.error],
          [attemptsOf('delivered', destination), events.delivered],
        ]),
      );
    },
    /** Returns values for windows of hours and days; none while events are read but not counted in real time. */
    hourly(input: CheckInput): HourlyValues {
      const { events, shown, isCounting, now, dataOf } = input;
      if (isCounting === false) return { counters: new Map(), gauges: new Map() };
      const settled = highestSettled(input, now - HOUR, now);
      const gauges = new Map(settled === undefined ? [] : [[SETTLED, settled]]);
      if (!events || !shown.events?.committed) return { counters: new Map(), gauges };
      const all = destinationsOf(shown.events.committed);
      const failing = all.filter(([destination, { finished }]) => isFailing(destination, finished, input));
      ended = new Map(all.map(([destination, { finished }]) => [destination, { ...finished }]));
      const counters = new Map([
        [finishedOf('delivered'), events.finished.delivered],
        [finishedOf('failed'), events.finished.failed],
        [eventFamilies.overdue.name, shown.events.committed.log.overdue],
        // Without fresh data, omit the value: the next one then includes this hour.
        ...(dataOf('flow_control').data === 'fresh' ? [[OVERDUE_PAUSED, overduePausedTotal(input)] as const] : []),
        ...failing.flatMap(([destination, { finished }]) => [
          [messagesOf('failed', destination), finished.failed] as const,
          [messagesOf('delivered', destination), finished.delivered] as const,
        ]),
      ]);
      return { counters, gauges };
    },
  };
}
