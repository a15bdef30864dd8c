/**
 * A week of an event log, ten million events of about 1 KB, in a process of its own: each page is a copy of one, with other times,
 * ids and states written over, so that it costs next to nothing. Sends its URL to its parent.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export const EVENTS = Number(process.env.BENCH_EVENTS ?? 10_000_000);
const ROWS = 1000;
export const WEEK = 7 * 86_400_000;
export const START = 1_700_000_040_000;
const APART = WEEK / EVENTS;
const STATES = ['"CREATED"  ', '"ACTIVE"   ', '"DELIVERED"', '"FAILED"   '] as const;

const timeOf = (index: number) => Math.floor(START + index * APART);

const TIME = '#############';
const ID = '@@@@@@@@';
const STATE = '"%%%%%%%%%"';
const row = JSON.stringify({
  time: Number.MAX_SAFE_INTEGER,
  messageId: `msg_26hZCxZCuWyyTWPmSVBrNB${ID}`,
  state: 'STATE',
  url: 'https://tenant-1.example.com/hooks/payments?order=1',
  method: 'POST',
  header: { 'Content-Type': ['application/json'], 'Upstash-Retries': ['3'], Authorization: ['REDACTED:5f3a'] },
  queueName: 'payments',
  maxRetries: 3,
  body: 'eyJyZWYiOiJmb28ifQ=='.repeat(30),
})
  .replace(String(Number.MAX_SAFE_INTEGER), TIME)
  .replace('"STATE"', STATE);
const HEAD = '{"events":[';
const template = Buffer.from(`${HEAD}${Array.from({ length: ROWS }, () => row).join(',')}`);
const SIZE = row.length + 1;
const [atTime, atId, atState] = [TIME, ID, STATE].map(text => row.indexOf(text)) as [number, number, number];

/** The page of the rows from `first` until `end`, the latest first; lives of three events, one message in 400 fails. */
function pageOf(first: number, end: number, cursor: number | undefined): Buffer {
  const count = end - first;
  const tail = cursor === undefined ? ']}' : `],"cursor":"${cursor}"}`;
  const length = HEAD.length + Math.max(0, count * SIZE - 1);
  const page = Buffer.allocUnsafe(length + tail.length);
  template.copy(page, 0, 0, length);
  for (let place = 0; place < count; place += 1) {
    const index = end - 1 - place;
    const message = Math.floor(index / 3);
    const at = HEAD.length + place * SIZE;
    page.write(String(timeOf(index)), at + atTime, 'latin1');
    page.write(message.toString(36).padStart(8, '0'), at + atId, 'latin1');
    const step = index % 3 === 2 && message % 400 === 0 ? 3 : index % 3;
    page.write(STATES[step] as string, at + atState, 'latin1');
  }
  page.write(tail, length, 'latin1');
  return page;
}

/** Index of the first event at `time` or later. */
const indexFrom = (time: number) => {
  let index = Math.max(0, Math.min(EVENTS, Math.floor((time - START) / APART) - 1));
  while (index < EVENTS && timeOf(index) < time) index += 1;
  return index;
};

if (process.send) {
  const server = createServer((request, response) => {
    const query = new URL(request.url ?? '', 'http://x').searchParams;
    if (!request.url?.startsWith('/v2/events')) return response.end('{"messages":[]}');
    const from = indexFrom(Number(query.get('fromDate') ?? 0));
    const end = Math.min(Number(query.get('cursor') ?? EVENTS), indexFrom(Number(query.get('toDate') ?? Infinity) + 1));
    const first = Math.max(from, end - ROWS);
    response.end(pageOf(first, Math.max(first, end), first > from ? first : undefined));
  });
  server.listen(0, '127.0.0.1', () => process.send?.(`http://127.0.0.1:${(server.address() as AddressInfo).port}`));
  process.on('disconnect', () => process.exit());
}
