import type { Random } from '../../src/emulator/random.ts';
import type { TrueEvent } from './event-truth.ts';

/**
 * Generates complete and incomplete message life cycles that start within `span` milliseconds after `start`. Many events share
 * a millisecond. `prefix`: prefix of message ids.
 */
export function traffic(
  chance: Random,
  { messages, span, start, prefix = 'msg' }: { messages: number; span: number; start: number; prefix?: string },
): TrueEvent[] {
  const upTo = (most: number) => chance.between(0, most - 1);
  return Array.from({ length: messages }, (_, number) => {
    const messageId = `${prefix}_${number}`;
    let time = start + upTo(span);
    const events: TrueEvent[] = [{ messageId, state: 'created', time }];
    const add = (state: string, wait: number) => {
      time += wait;
      const statuses = state === 'delivered' ? [200, 201] : state === 'error' ? [404, 500, 503, 0] : [undefined];
      events.push({ messageId, state, time, status: statuses[upTo(statuses.length)] });
    };
    for (let retries = upTo(3); retries > 0; retries -= 1) {
      add('active', 1 + upTo(300));
      add('error', upTo(800));
      add('retry', 0);
    }
    const end = chance.fraction();
    if (end < 0.1) add('cancel_requested', upTo(50));
    if (end < 0.1) add('cancelled', upTo(900));
    if (end >= 0.15) add('active', 1 + upTo(2000));
    if (end >= 0.15 && end < 0.3) add('error', upTo(100));
    if (end >= 0.15 && end < 0.3) add('failed', 0);
    if (end >= 0.3) add('delivered', upTo(1500));
    return events;
  }).flat();
}
