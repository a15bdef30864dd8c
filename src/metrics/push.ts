import { counter, type Family } from './family.ts';
import { createCounter } from './own.ts';

export const pushFamilies = {
  requests: counter(
    'delivery_watch_push_requests_total',
    'Requests to the OTLP receiver by outcome. refused: not retried; failed: retried after no response, or status 429, 502, 503 or 504.',
    ['outcome'],
  ),
  items: counter(
    'delivery_watch_push_items_total',
    'Pushed data points by outcome. rejected: not accepted by the receiver; dropped: the queue was full.',
    ['outcome'],
  ),
} as const;

const REQUEST_OUTCOMES = ['accepted', 'refused', 'failed'];
const ITEM_OUTCOMES = ['exported', 'rejected', 'dropped'];

export type PushMeter = ReturnType<typeof createPushMeter>;

export function createPushMeter(now: () => number) {
  let revision = 0;
  const changed = () => {
    revision += 1;
  };
  const create = (family: Family<'outcome'>, outcomes: readonly string[]) => {
    const initial = outcomes.map(outcome => ({ outcome }));
    return createCounter(family, initial, changed, now);
  };
  const requests = create(pushFamilies.requests, REQUEST_OUTCOMES);
  const items = create(pushFamilies.items, ITEM_OUTCOMES);
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
