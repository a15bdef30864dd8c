import type { ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { FIELD } from './answer-services.ts';
import { listenHttp, listenRaw, packet } from './listen.ts';
import { every, type HostileService, json, type List, paged } from './service.ts';
import { wellAnswer } from './well-service.ts';

const MIB = 1024 * 1024;
const GZIP = { 'content-encoding': 'gzip' };

/** Large answers are few: the account of such a service may cost little, after as much as it takes to read every list. */
const RARE = { requestsPerSecond: 0.1, burst: 8 };

/** What is wrong is what the answer means, so its request may be counted as good. */
const ONLY_MEANT = { counted: 'none', budget: { requestsPerSecond: 0.1, burst: 5 } } as const;

/** An answer of so many MiB. */
function sendBlanks(response: ServerResponse, mib: number): void {
  const block = Buffer.alloc(MIB, ' ');
  response.writeHead(200, { 'content-length': String(mib * MIB) });
  for (let left = mib; left > 0; left -= 1) response.write(block);
  response.end();
}

/** A gzip body of `head`, `times` the text `unit`, and `tail`: members one after the other, so a bomb is quickly made. */
function packed(head: string, unit: string, times: number, tail: string): Buffer {
  const inMember = Math.max(1, Math.floor(MIB / unit.length));
  const member = gzipSync(unit.repeat(inMember));
  const rest = gzipSync(unit.repeat(times % inMember));
  return Buffer.concat([
    gzipSync(head),
    ...Array.from({ length: Math.floor(times / inMember) }, () => member),
    rest,
    gzipSync(tail),
  ]);
}

/** A service whose answers are large, and the same for each list. */
const bomb = (
  name: string,
  make: (list: List) => Buffer,
  outcome: HostileService['outcome'] = 'invalid_response',
  more: Partial<HostileService> = {},
): HostileService => ({
  name,
  outcome,
  budget: RARE,
  ...more,
  start(site) {
    const bodies = { dlq: make('dlq'), events: make('events'), flow_control: make('flow_control') };
    return listenHttp(site, ({ list }, response) => response.writeHead(200, GZIP).end(bodies[list]));
  },
});

/** A service that has these flow-control keys, and else what is right. */
const withKeys = (name: string, keys: number, make: () => string): HostileService => ({
  name,
  outcome: 'ok',
  budget: RARE,
  shows: { delivery_flow_control_keys: keys },
  start(site) {
    const body = Buffer.from(make());
    return listenHttp(site, (asked, response) =>
      asked.list === 'flow_control' ? response.end(body) : json(response, wellAnswer(asked)),
    );
  },
});

const rowsOfKeys = (count: number, key: (index: number) => string) =>
  JSON.stringify(Array.from({ length: count }, (_, index) => ({ flowControlKey: key(index), waitListSize: index })));

/** All that is awkward in a label value, a log line or a page. */
const AWKWARD = [
  '\n',
  '"',
  '\\',
  '\r',
  '\0',
  '\x1b[2J',
  '\ud800',
  '\udc00',
  '\u202e',
  'שלום',
  '👩‍👩‍👧',
  '\u2028',
  '</script>',
  '{{',
  '%7B%7D',
  '__proto__',
  '# EOF\n',
  ' 1\ndelivery_up{account="well-1"} 0\n',
];

/** Cursors that never end, each of so many characters. */
const longCursors =
  (length: number): HostileService['start'] =>
  site => {
    let pages = 0;
    const tail = 'x'.repeat(length);
    return listenRaw(site, (asked, socket) => {
      pages += 1;
      socket.write(packet(JSON.stringify({ [FIELD[asked.list]]: [], cursor: `${pages}-${tail}` })));
    });
  };

/** More in number or size than anyone needs. */
export const sizeServices: readonly HostileService[] = [
  {
    name: 'pages-of-33-mib',
    outcome: 'ok',
    start(site) {
      let inVain = 0;
      let pages = 0;
      const read = new Set<List>();
      return listenHttp(site, (asked, response) => {
        const { list, query } = asked;
        if (list === 'flow_control') json(response, wellAnswer(asked));
        else if (Number(query.get('count')) <= 12) {
          read.add(list);
          pages += 1;
          json(response, { [FIELD[list]]: [] });
        } else {
          inVain += Number(read.has(list));
          // One may have been in flight, and the agent tries more rows after 16 pages.
          if (inVain > 2 + pages / 16) site.complain('pages of a size that had been too large');
          sendBlanks(response, 33);
        }
      });
    },
  },
  {
    name: 'keys-of-33-mib',
    outcome: { ...every('ok' as const), flow_control: 'invalid_response' },
    budget: { requestsPerSecond: 0.2, burst: 16 },
    start: site =>
      listenHttp(site, (asked, response) =>
        asked.list === 'flow_control' ? sendBlanks(response, 33) : json(response, wellAnswer(asked)),
      ),
  },
  {
    name: 'gzip-of-half-a-gib',
    outcome: { ...every('ok' as const), flow_control: 'invalid_response' },
    budget: RARE,
    start(site) {
      const body = packed('', ' ', 512 * MIB, '');
      return listenHttp(site, (asked, response) =>
        asked.list === 'flow_control' ? response.writeHead(200, GZIP).end(body) : json(response, wellAnswer(asked)),
      );
    },
  },
  bomb(
    'a-million-rows',
    list => packed(`{"${FIELD[list]}":[`, '{},', 1_000_001, '{}]}'),
    'invalid_response',
    ONLY_MEANT,
  ),
  {
    name: 'eleven-times-the-rows',
    outcome: paged('invalid_response'),
    counted: 'none',
    start: site =>
      listenHttp(site, (asked, response) => {
        const count = asked.list === 'flow_control' ? 3 : Number(asked.query.get('count')) * 11;
        json(response, {
          [FIELD[asked.list]]: Array.from({ length: count }, (_, index) => ({
            dlqId: `${index}-0`,
            flowControlKey: `k${index}`,
          })),
        });
      }),
  },
  bomb('nested-a-hundred-thousand-deep', () => packed('', '[', 100_000, ']'.repeat(100_000)), 'invalid_response', {
    counted: 'none',
  }),
  {
    name: 'blanks-in-tiny-chunks',
    outcome: 'invalid_response',
    budget: RARE,
    start: site =>
      listenRaw(site, (_asked, socket) => {
        socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n');
        socket.write('1\r\n \r\n'.repeat(300_000));
        socket.write('0\r\n\r\n');
      }),
  },
  {
    name: 'long-cursors',
    outcome: paged('unending'),
    counted: 'none',
    budget: { requestsPerSecond: 50, burst: 1 },
    start: longCursors(16_384),
  },
  {
    // Each reading brings messages that nobody has heard of and that will never end.
    name: 'lives-without-end',
    outcome: 'ok',
    budget: { requestsPerSecond: 5, burst: 20 },
    start(site) {
      let messages = 0;
      return listenHttp(site, (asked, response) => {
        if (asked.list !== 'events') return json(response, wellAnswer(asked));
        const time = Number(asked.query.get('toDate'));
        const events = Array.from({ length: 1000 }, () => ({ messageId: `msg_${messages++}`, state: 'CREATED', time }));
        const pages = Number(asked.query.get('cursor') ?? 1);
        json(response, { events, ...(pages < 10 ? { cursor: pages + 1 } : {}) });
      });
    },
  },
  {
    name: 'ids-of-4-kib',
    outcome: 'ok',
    shows: { delivery_dlq_messages: 100 },
    budget: { requestsPerSecond: 0.5, burst: 10 },
    start: site =>
      listenHttp(site, ({ list, query }, response) => {
        const [time, count] = [Number(query.get('toDate')), list === 'dlq' ? 100 : 1000];
        const rows = Array.from({ length: count }, (_, index) => {
          const id = `${index}-${'i'.repeat(4096)}`;
          return { dlqId: id, messageId: id, state: id, createdAt: 1, time };
        });
        json(response, { [FIELD[list]]: list === 'flow_control' ? [] : rows });
      }),
  },
  withKeys('three-hundred-thousand-keys', 300_000, () => rowsOfKeys(300_000, index => `key-${index}`)),
  withKeys('keys-of-5-mib', 3, () => rowsOfKeys(3, index => 'k'.repeat(5 * MIB) + index)),
  withKeys('a-hundred-thousand-awkward-keys', 100_000, () =>
    rowsOfKeys(100_000, index => `${AWKWARD[index % AWKWARD.length]}${index}`),
  ),
  withKeys(
    'keys-that-become-one',
    2,
    // Lone surrogates are one and the same character once they are written as UTF-8.
    () => rowsOfKeys(2000, index => `k${String.fromCharCode(0xd800 + (index % 1024))}${index < 1024 ? '' : '!'}`),
  ),
  withKeys('the-name-of-the-rest', 3, () => rowsOfKeys(3, index => ['__other__', '', 'constructor'][index] as string)),
];

/**
 * Small on the wire and within every bound on bytes, but each of these alone costs more than all others together:
 * seconds to minutes in which nothing else runs, and gigabytes. They are started only by name.
 */
export const severeServices: readonly HostileService[] = [
  bomb(
    'eleven-million-objects',
    list => packed(`{"${FIELD[list]}":[`, '{},', 11_000_000, '{}]}'),
    'invalid_response',
    ONLY_MEANT,
  ),
  bomb('forty-million-keys', () => packed('[', '{},', 40_000_000, '{}]'), 'invalid_response', ONLY_MEANT),
  bomb('nested-sixty-million-deep', () => packed('', '[', 60_000_000, ''), 'invalid_response', { budget: RARE }),
  {
    ...bomb('a-million-names', () => Buffer.alloc(0), 'invalid_response', ONLY_MEANT),
    start(site) {
      const names = Array.from({ length: 1_000_000 }, (_, index) => `"${index.toString(36)}":0`);
      const body = gzipSync(`{"messages":[],"events":[],"flowControls":[],${names}}`);
      return listenHttp(site, (_asked, response) => response.writeHead(200, GZIP).end(body));
    },
  },
  {
    name: 'cursors-of-a-mib',
    outcome: paged('unending'),
    counted: 'none',
    start: longCursors(MIB),
  },
];
