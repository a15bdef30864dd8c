import { BoundedMap } from '../../kit/bounded-map.ts';
import type { DeliveryEvent } from '../../model/message.ts';

/** Time of the last delivery of each queue that the log lists (ms since the Unix epoch); 0 if no delivery is known. */
export type QueueDeliveries = ReadonlyMap<string, number>;

/** Maximum number of queues, those with the newest deliveries. */
const MAX_QUEUES = 1000;

export const createQueueDeliveries = () => new BoundedMap<string, number>(MAX_QUEUES);

type Deliveries = ReturnType<typeof createQueueDeliveries>;

/** Adds what an event shows. Reading an event again changes nothing. */
export function noteEvent(deliveries: Deliveries, { queue, state, time }: DeliveryEvent): void {
  const at = state === 'delivered' ? time : 0;
  if (queue !== undefined && at > (deliveries.get(queue) ?? -1)) deliveries.set(queue, at);
}

/** Deliveries since this process began to read the log at `from` (ms since the Unix epoch). */
export interface QueueMemory {
  from: number;
  readonly deliveries: Deliveries;
}
