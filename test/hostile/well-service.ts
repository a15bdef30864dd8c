import { listenHttp } from './listen.ts';
import { type Asked, json, type Running, type Site } from './service.ts';

/** Creation times of the dead letters, milliseconds since the Unix epoch: one each second. */
const FIRST = Date.UTC(2025, 5, 15);
const DEAD_LETTERS = 250;

/** One event a second, for ever: any whole minute holds the same numbers, whoever asks and when. A message is three of them. */
const STATES = ['CREATED', 'ACTIVE', 'DELIVERED', 'CREATED', 'ACTIVE', 'FAILED'];

/** What the agent shall show of a service that answers as these functions do. */
export const WELL = {
  window: 60,
  deadLetters: DEAD_LETTERS,
  oldest: FIRST / 1000,
  newest: FIRST / 1000 + DEAD_LETTERS - 1,
  events: { created: 20, active: 20, delivered: 10, failed: 10 },
  waiting: { orders: 7, 'mail "eu"\n': 0, 'a\\b': 3 },
} as const;

const LONGEST_PAGE = 100;

/** One page of `total` rows, by number from `cursor` on. */
function page(list: string, { query }: Asked, total: number, row: (index: number) => object): object {
  const start = Number(query.get('cursor') ?? 0);
  const end = Math.min(total, start + Math.min(LONGEST_PAGE, Number(query.get('count') ?? LONGEST_PAGE)));
  const rows = Array.from({ length: Math.max(0, end - start) }, (_, index) => row(start + index));
  return { [list]: rows, ...(end < total ? { cursor: String(end) } : {}) };
}

/** The right answer to anything that is asked. */
export function wellAnswer(asked: Asked): object {
  const from = Number(asked.query.get('fromDate') ?? 0);
  const to = Number(asked.query.get('toDate') ?? Date.now());
  if (asked.list === 'flow_control') {
    return {
      flowControls: Object.entries(WELL.waiting).map(([flowControlKey, waitListSize]) => ({
        flowControlKey,
        waitListSize,
        parallelismMax: 10,
      })),
    };
  }
  if (asked.list === 'events') {
    const first = Math.ceil(from / 1000);
    return page('events', asked, Math.max(0, Math.floor(to / 1000) - first + 1), index => ({
      messageId: `msg_${Math.floor((first + index) / 3)}`,
      state: STATES[(first + index) % STATES.length],
      time: (first + index) * 1000,
      url: 'https://destination.example.com/',
    }));
  }
  const letters = Array.from({ length: DEAD_LETTERS }, (_, index) => FIRST + index * 1000).filter(
    time => time >= from && time <= to,
  );
  return page('messages', asked, letters.length, index => ({
    dlqId: `${letters[index]}-0`,
    messageId: `msg_${letters[index]}`,
    createdAt: letters[index],
    url: 'https://destination.example.com/',
    state: 'failed',
    responseStatus: 500,
  }));
}

/** A service with nothing wrong. */
export const startWellService = (site: Site): Promise<Running> =>
  listenHttp(site, (asked, response) => json(response, wellAnswer(asked)));
