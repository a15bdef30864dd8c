import { listenHttp } from './listen.ts';
import { json, type ListRequest, type Running, type Site } from './service.ts';

/** Time of the first dead letter (ms). The others follow at intervals of one second. */
const FIRST = Date.UTC(2025, 5, 15);
const DEAD_LETTERS = 250;

/**
 * States of consecutive events, one per second, so that every complete minute has the same counts. Each message has three
 * events.
 */
const STATES = ['CREATED', 'ACTIVE', 'DELIVERED', 'CREATED', 'ACTIVE', 'FAILED'];

/** Expected metrics of a healthy service. */
export const HEALTHY = {
  window: 60,
  deadLetters: DEAD_LETTERS,
  oldest: FIRST / 1000,
  events: { created: 20, active: 20, delivered: 10, failed: 10 },
  waiting: { orders: 7, 'mail "eu"\n': 0, 'a\\b': 3 },
} as const;

const MAX_PAGE = 100;

/** Returns the page that starts at the query's `cursor` in a list of `total` rows. */
function page(list: string, { query }: ListRequest, total: number, row: (index: number) => object): object {
  const start = Number(query.get('cursor') ?? 0);
  const end = Math.min(total, start + Math.min(MAX_PAGE, Number(query.get('count') ?? MAX_PAGE)));
  const rows = Array.from({ length: Math.max(0, end - start) }, (_, index) => row(start + index));
  return { [list]: rows, ...(end < total ? { cursor: String(end) } : {}) };
}

/** Returns the correct response to any request. */
export function healthyResponse(listRequest: ListRequest): object {
  const from = Number(listRequest.query.get('fromDate') ?? 0);
  const to = Number(listRequest.query.get('toDate') ?? Date.now());
  if (listRequest.list === 'flow_control') {
    return {
      flowControls: Object.entries(HEALTHY.waiting).map(([flowControlKey, waitListSize]) => ({
        flowControlKey,
        waitListSize,
        parallelismMax: 10,
      })),
    };
  }
  if (listRequest.list === 'events') {
    const first = Math.ceil(from / 1000);
    return page('events', listRequest, Math.max(0, Math.floor(to / 1000) - first + 1), index => ({
      messageId: `msg_${Math.floor((first + index) / 3)}`,
      state: STATES[(first + index) % STATES.length],
      time: (first + index) * 1000,
      url: 'https://destination.example.com/',
    }));
  }
  const letters = Array.from({ length: DEAD_LETTERS }, (_, index) => FIRST + index * 1000).filter(
    time => time >= from && time <= to,
  );
  return page('messages', listRequest, letters.length, index => ({
    dlqId: `${letters[index]}-0`,
    messageId: `msg_${letters[index]}`,
    createdAt: letters[index],
    url: 'https://destination.example.com/',
    state: 'failed',
    responseStatus: 500,
  }));
}

/** Starts a service that responds correctly to every request. */
export const startHealthyService = (site: Site): Promise<Running> =>
  listenHttp(site, (listRequest, response) => json(response, healthyResponse(listRequest)));
