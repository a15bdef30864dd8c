import { counter, type Family, type Source } from './family.ts';
import { createCounter, type KeptCounter, knownSeries } from './own.ts';

/** What the agent says of what it pushes; only while `push` is enabled. */
export const pushFamilies = {
  requests: counter(
    'delivery_watch_push_requests_total',
    'Requests to the OTLP receiver by signal (metrics or logs) and outcome: accepted; refused: not sent again; failed: no answer, or a status after which it is sent again: of metrics 429, 502, 503 and 504, of logs all but 400 and 413. Only if `push` is enabled for the signal. Restarts at 0 with the process.',
    ['signal', 'outcome'],
  ),
  items: counter(
    'delivery_watch_push_items_total',
    'Data points (signal: metrics) or log records (logs) by outcome: exported; rejected: by the receiver, also in part of a request; dropped: the queue was full. Only if `push` is enabled for the signal. Restarts at 0 with the process.',
    ['signal', 'outcome'],
  ),
} as const;

const REQUEST_OUTCOMES = ['accepted', 'refused', 'failed'];
const ITEM_OUTCOMES = ['exported', 'rejected', 'dropped'];

/** Counters of what this process has pushed. */
export interface PushMeter {
  readonly requests: KeptCounter<'signal' | 'outcome'>;
  readonly items: KeptCounter<'signal' | 'outcome'>;
  /** What is shown, of the signals that are pushed. */
  readonly source: Source;
}

/** `now`: milliseconds since the Unix epoch. `before`: the counters of the same process; those of signals in both go on. */
export function createPushMeter(signals: readonly string[], now: () => number, before?: PushMeter): PushMeter {
  let revision = 0;
  const changed = () => {
    revision += 1;
  };
  const known = (family: Family<'signal' | 'outcome'>, outcomes: readonly string[]) =>
    knownSeries(
      family,
      signals.flatMap(signal => outcomes.map(outcome => ({ signal, outcome }))),
    );
  const requests = createCounter(
    pushFamilies.requests,
    known(pushFamilies.requests, REQUEST_OUTCOMES),
    changed,
    now,
    before?.requests,
  );
  const items = createCounter(
    pushFamilies.items,
    known(pushFamilies.items, ITEM_OUTCOMES),
    changed,
    now,
    before?.items,
  );
  return {
    requests,
    items,
    source: {
      families: Object.values(pushFamilies),
      revision: () => revision,
      samples: () =>
        new Map([
          [pushFamilies.requests.name, requests.samples()],
          [pushFamilies.items.name, items.samples()],
        ]),
    },
  };
}
