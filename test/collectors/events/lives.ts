import fc from 'fast-check';
import type { TrueEvent } from '../../support/event-truth.ts';

/** A life cycle: the number of retries, the end, and the times between its states (ms), which may be 0. */
export const life = fc.tuple(
  fc.nat(3),
  fc.constantFrom('delivered', 'failed', 'cancelled', 'none'),
  fc.array(fc.oneof(fc.constantFrom(0, 1), fc.nat(400_000)), { minLength: 14, maxLength: 14 }),
);

const STATUSES = [undefined, 0, 199, 200, 204, 302, 404, 429, 500, 503, 599, 600, 1e300];

/** Returns the events of a life cycle that begins at `start`. */
export function eventsOf(
  messageId: string,
  start: number,
  [retries, end, waits]: [number, string, number[]],
): TrueEvent[] {
  const states = ['created'];
  for (let retry = 0; retry < retries; retry += 1) states.push('active', 'error', 'retry');
  if (end === 'delivered') states.push('active', 'delivered');
  if (end === 'failed') states.push('active', 'error', 'failed');
  if (end === 'cancelled') states.push('cancel_requested', 'cancelled');
  let time = start;
  return states.map((state, index) => {
    // An attempt must start later than the previous event; otherwise their order is ambiguous.
    time += index === 0 ? 0 : Math.max(state === 'active' ? 1 : 0, waits[index] ?? 1);
    return { messageId, state, time, status: STATUSES[((waits[0] as number) + index) % STATUSES.length] };
  });
}
