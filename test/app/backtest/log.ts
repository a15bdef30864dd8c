import { createRandom } from '../../../src/emulator/random.ts';
import type { DeliveryEvent, EventState } from '../../../src/model/message.ts';
import type { EventQuery, ListPage, Reader } from '../../../src/upstream/api.ts';

const [SECOND, MINUTE, HOUR] = [1000, 60_000, 3_600_000];

/** Messages and what became of them, from `start` for `length` milliseconds: every so often a destination is down for a while. */
export function emulateLog(start: number, length: number, seed = 1): readonly DeliveryEvent[] {
  const random = createRandom(seed);
  const events: DeliveryEvent[] = [];
  const outages: { from: number; to: number; stalls: boolean }[] = [];
  for (let at = start + HOUR / 2; at < start + length; at += random.between(HOUR, 4 * HOUR)) {
    outages.push({ from: at, to: at + random.between(4 * MINUTE, 40 * MINUTE), stalls: random.chance(0.4) });
  }
  const outageAt = (time: number) => outages.find(({ from, to }) => time >= from && time < to);
  let number = 0;
  for (let created = start; created < start + length; created += random.between(5 * SECOND, 30 * SECOND)) {
    const messageId = `msg_${number++}`;
    const url = `https://${number % 3}.example.com/x`;
    const add = (time: number, state: EventState) => events.push({ messageId, time, state, url });
    add(created, 'created');
    let at = created + random.between(10, 500);
    for (let attempt = 1; ; attempt += 1) {
      const outage = outageAt(at);
      if (outage?.stalls) at = outage.to + random.between(0, 5 * SECOND);
      add(at, 'active');
      at += random.between(20, 3 * SECOND);
      const isGood = outage && !outage.stalls ? random.chance(0.4) : random.chance(0.97);
      if (isGood) {
        add(at, 'delivered');
        break;
      }
      add(at, 'error');
      if (attempt === 3) {
        add(at + 1, 'failed');
        break;
      }
      add(at + 1, 'retry');
      at += attempt * random.between(10 * SECOND, 40 * SECOND);
    }
  }
  return events.sort((a, b) => a.time - b.time);
}

/** Index of the first event at `time` or later. */
function indexFrom(log: readonly DeliveryEvent[], time: number): number {
  let [low, high] = [0, log.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((log[middle]?.time ?? Number.POSITIVE_INFINITY) < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

const PAGE = 1000;

/** Lists what has happened until `now`, the latest first. Everything else that may be read is empty. */
export function readerOf(log: readonly DeliveryEvent[], now: () => number): Reader {
  async function* eventPages({ fromDate = 0, toDate = Number.POSITIVE_INFINITY }: EventQuery) {
    const first = indexFrom(log, fromDate);
    for (let end = indexFrom(log, Math.min(toDate, now()) + 1); ; end -= PAGE) {
      const rows = log.slice(Math.max(first, end - PAGE), end).reverse();
      const isLast = end - PAGE <= first;
      yield { rows, rejected: 0, isLast } satisfies ListPage<DeliveryEvent>;
      if (isLast) return;
    }
  }
  async function* dlqPages() {
    yield { rows: [], rejected: 0, isLast: true };
  }
  return {
    eventPages,
    dlqPages,
    flowControl: (_signal, begin) => Promise.resolve({ into: begin(), rejected: 0 }),
    flowControlKey: () => Promise.resolve(undefined),
  };
}
