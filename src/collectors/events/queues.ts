import { BoundedMap } from '../../kit/bounded-map.ts';
import type { DeliveryEvent } from '../../model/message.ts';

/** Time of the last delivery of each queue that the log lists (ms since the Unix epoch); 0 if no delivery is known. */
export type QueueDeliveries = ReadonlyMap<string, number>;

/** Maximum number of queues, those with the newest deliveries. */
const MAX_QUEUES = 1000;

export const createQueueDeliveries = () => new BoundedMap<string, number>(MAX_QUEUES);

type Deliveries = ReturnType<typeof createQueueDeliveries>;

function note(deliveries: Deliveries, queue: string, at: number): void {
  // Reading an event again changes nothing.
  if (at > (deliveries.get(queue) ?? -1)) deliveries.set(queue, at);
}

export function noteEvent(deliveries: Deliveries, { queue, state, time }: DeliveryEvent): void {
  if (queue !== undefined) note(deliveries, queue, state === 'delivered' ? time : 0);
}

/** Deliveries since this process began to read the log at `from` (ms since the Unix epoch). */
export interface QueueMemory {
  from: number;
  readonly deliveries: Deliveries;
}

/** Adds what a range of the log shows. */
export function noteRange({ deliveries }: QueueMemory, range: { readonly queues: Deliveries }): void {
  for (const [queue, at] of range.queues) note(deliveries, queue, at);
}
