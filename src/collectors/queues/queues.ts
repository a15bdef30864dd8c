import { z } from 'zod';
import { Duration } from '../../kit/duration.ts';
import { AutoOrOff, intOption } from '../../kit/option.ts';
import type { ServiceQueue } from '../../model/service.ts';
import { largestOf, OTHER, seriesDropped } from '../cap.ts';
import { type Collector, defineKind, familiesOf, flagValue, optionalSample } from '../collector.ts';

const options = z.strictObject({
  enabled: AutoOrOff.describe('`auto`: the list of queues is read if the service offers it. `false`: never.'),
  every: Duration.prefault('5m').describe('Interval between reads of the list of queues. Each read takes one request.'),
  maxSeries: intOption({ min: 1, max: 10_000, otherwise: 200 }).describe(
    'Maximum number of queues with separate series and checks (longest first). `__other__` is the sum of all other queues.',
  ),
});

type QueuesOptions = z.output<typeof options>;

export interface QueuesFacts {
  /** The longest first. */
  readonly shown: readonly ServiceQueue[];
  /** Number of queues beyond the cap, and number of messages waiting in them. */
  readonly beyondCap: number;
  readonly beyondCapLag: number;
}

const sizeOf = ({ lag = 0 }: ServiceQueue) => lag;

const { gauge } = familiesOf<QueuesFacts>();

const perQueue = (all: QueuesFacts['shown'], numberOf: (queue: ServiceQueue) => number | undefined) =>
  all.flatMap(queue => optionalSample({ queue: queue.name }, numberOf(queue)));

const lag = gauge({
  name: 'delivery_queue_lag',
  help: 'Messages that wait in the queue, according to the service. This number is not reliable: it may be too low.',
  labels: ['queue'],
  pick: ({ shown, beyondCap, beyondCapLag }) => [
    ...perQueue(shown, ({ lag }) => lag),
    ...(beyondCap > 0 ? [{ labels: { queue: OTHER }, value: beyondCapLag }] : []),
  ],
});

const families = {
  lag,
  paused: gauge({
    name: 'delivery_queue_paused',
    help: 'Whether deliveries of the queue are paused (1) or not (0).',
    labels: ['queue'],
    pick: ({ shown }) => perQueue(shown, ({ paused }) => flagValue(paused)),
  }),
  parallelismLimit: gauge({
    name: 'delivery_queue_parallelism_limit',
    help: 'Maximum concurrent deliveries of the queue.',
    labels: ['queue'],
    pick: ({ shown }) => perQueue(shown, ({ parallelismLimit }) => parallelismLimit),
  }),
  seriesDropped: gauge({
    ...seriesDropped,
    pick: ({ beyondCap }) => [{ labels: { family: lag.name }, value: beyondCap }],
  }),
};

export const queues = defineKind({
  name: 'queues',
  title: 'Queues',
  configKey: 'queues',
  isOptional: true,
  options,
  families,
  rounds: ({ every }: QueuesOptions) => ({ queues: { every, requests: 1, priority: 'background' } }),
  create: createQueues,
});

function createQueues(options: QueuesOptions): Collector<QueuesFacts, QueuesFacts['shown'], never> {
  return {
    ...queues,
    rounds: queues.rounds(options),
    restore: (_rows, last) => last?.shown ?? [],
    async observe({ api, signal }) {
      const rows = new Map<string, ServiceQueue>();
      const rejected = await api.queues(signal, row => rows.set(row.name, row));
      return {
        fold(before) {
          // An unreadable row may belong to a known queue without a readable row, so such queues are kept.
          const kept = rejected === 0 ? [] : before.filter(({ name }) => !rows.has(name));
          const all = [...rows.values(), ...kept];
          const sizes = all.filter(({ name }) => name !== OTHER).map(queue => [queue.name, sizeOf(queue)] as const);
          const largest = largestOf(sizes, options.maxSeries);
          const shown = all.filter(({ name }) => largest.has(name)).sort((a, b) => sizeOf(b) - sizeOf(a));
          const others = all.filter(({ name }) => !largest.has(name));
          const beyondCapLag = others.reduce((sum, queue) => sum + sizeOf(queue), 0);
          const facts = { shown, beyondCap: others.length, beyondCapLag };
          return { memory: shown, facts, changes: [] };
        },
        isPartial: rejected > 0 || rows.values().some(({ isIncomplete }) => isIncomplete),
        more: undefined,
      };
    },
  };
}
