const total = (state: string) => ({ metric: 'delivery_events_total', labels: { state } });
const finished = (outcome: string[]) => ({ metric: 'delivery_messages_finished_total', labels: { outcome } });

/** Alert rules on metrics that a backtest derives from the event log. */
export const RULES = [
  { name: 'Errors', when: { growth: { ...total('error'), over: '15m', atLeast: 12 } } },
  { name: 'Recent', when: { above: { metric: 'delivery_events_recent', labels: { state: 'error' }, value: 3 } } },
  { name: 'InFlight', when: { above: { metric: 'delivery_messages_in_flight', value: 40 } }, for: '1m' },
  { name: 'Old', when: { age: { metric: 'delivery_oldest_in_flight_timestamp_seconds', above: '2m' } } },
  { name: 'Overdue', when: { growth: { metric: 'delivery_messages_overdue_total', over: '30m', atLeast: 5 } } },
  { name: 'Failed', when: { growth: { ...finished(['failed']), over: '10m', atLeast: 5 } }, keepFiringFor: '5m' },
  {
    name: 'Ratio',
    when: { ratio: { part: total('error'), whole: total('active'), over: '10m', above: 0.05, atLeast: 10 } },
    for: '2m',
  },
];
