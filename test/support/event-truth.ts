/** An event of a generated log. Times are in milliseconds. */
export interface TrueEvent {
  readonly messageId: string;
  readonly state: string;
  readonly time: number;
  /** HTTP status in the event. */
  readonly status?: number | undefined;
}

export interface Truth {
  readonly events: Record<string, number>;
  readonly finished: Record<string, number>;
  /** All observations (ms), ascending. */
  readonly timeToDeliver: number[];
  readonly queueWait: number[];
  readonly attempt: Record<string, number[]>;
  readonly attempts: Record<string, number[]>;
  /** Number of ended attempts by result and status class, such as `error 5xx`. */
  readonly answers: Record<string, number>;
  readonly inFlight: string[];
  readonly overdue: number;
  /** Messages delivered or failed before the on-time target, and messages whose target has passed. */
  readonly due: number;
  /** Messages delivered before the target. */
  readonly onTime: number;
}

const ON_TIME = 300_000;
const ENDS = ['delivered', 'failed', 'cancelled'];
/** Order of events within the same millisecond. */
const ORDER = ['created', 'active', 'error', 'retry', 'cancel_requested', 'failed', 'delivered', 'cancelled'];

/**
 * Computes the expected metrics of a log of complete life cycles, independently of the code under test. `until`: time
 * at which unfinished messages are checked for being overdue.
 */
export function truthOf(all: readonly TrueEvent[], until: number): Truth {
  const truth: Truth = {
    events: {},
    finished: { delivered: 0, failed: 0, cancelled: 0 },
    timeToDeliver: [],
    queueWait: [],
    attempt: { success: [], error: [] },
    attempts: { delivered: [], failed: [], cancelled: [] },
    answers: {},
    inFlight: [],
    overdue: 0,
    due: 0,
    onTime: 0,
  };
  let [overdue, due, onTime] = [0, 0, 0];
  for (const { state, status } of all) {
    truth.events[state] = (truth.events[state] ?? 0) + 1;
    if (state !== 'delivered' && state !== 'error') continue;
    const isClassed = status !== undefined && status >= 200 && status <= 599;
    const answer = `${state === 'delivered' ? 'success' : 'error'} ${isClassed ? `${String(status)[0]}xx` : 'none'}`;
    truth.answers[answer] = (truth.answers[answer] ?? 0) + 1;
  }
  for (const [messageId, events] of Map.groupBy(all, event => event.messageId)) {
    const life = events.toSorted((a, b) => a.time - b.time || ORDER.indexOf(a.state) - ORDER.indexOf(b.state));
    const created = life.find(({ state }) => state === 'created');
    const end = life.find(({ state }) => ENDS.includes(state));
    const starts = life.filter(({ state }) => state === 'active');
    if (end) (truth.finished[end.state] as number) += 1;
    for (const start of starts) {
      const answer = life.slice(life.indexOf(start) + 1).find(({ state }) => state !== 'active');
      if (answer?.state === 'delivered') truth.attempt.success?.push(answer.time - start.time);
      if (answer?.state === 'error' || answer?.state === 'failed') truth.attempt.error?.push(answer.time - start.time);
    }
    if (!created) continue;
    if (starts[0]) truth.queueWait.push(starts[0].time - created.time);
    if (end?.state === 'delivered') truth.timeToDeliver.push(end.time - created.time);
    if (end) truth.attempts[end.state]?.push(starts.length);
    else truth.inFlight.push(messageId);
    const isLate = (end?.time ?? until) > created.time + ON_TIME;
    if (isLate) overdue += 1;
    if (isLate || end?.state === 'delivered' || end?.state === 'failed') due += 1;
    if (!isLate && end?.state === 'delivered') onTime += 1;
  }
  for (const list of [
    truth.timeToDeliver,
    truth.queueWait,
    ...Object.values(truth.attempt),
    ...Object.values(truth.attempts),
  ]) {
    list.sort((a, b) => a - b);
  }
  return { ...truth, inFlight: truth.inFlight.sort(), overdue, due, onTime };
}

/** Returns the cumulative counts of a Prometheus histogram. `unit`: how many units of `values` make one unit of `bounds`. */
export function bucketsOf(values: readonly number[], bounds: readonly number[], unit = 1000): number[] {
  return [...bounds, Number.POSITIVE_INFINITY].map(bound => values.filter(value => value / unit <= bound).length);
}
