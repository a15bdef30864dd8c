import type { ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { FIELD } from './answer-services.ts';
import { healthyResponse } from './healthy-service.ts';
import { listenHttp, listenRaw, packet } from './listen.ts';
import { every, type HostileService, json, type List, paged } from './service.ts';

const MIB = 1024 * 1024;
const GZIP = { 'content-encoding': 'gzip' };

/** Budget of a service with large responses: a low rate, and a burst that suffices to read every list once. */
const RARE = { requestsPerSecond: 0.1, burst: 8 };

/** Options of a service that sends well-formed JSON with invalid content. Its requests may count as successful. */
const INVALID_CONTENT = { counted: 'none', budget: { requestsPerSecond: 0.1, burst: 5 } } as const;

/** Sends `mib` MiB of spaces. */
function sendBlanks(response: ServerResponse, mib: number): void {
  const block = Buffer.alloc(MIB, ' ');
  response.writeHead(200, { 'content-length': String(mib * MIB) });
  for (let left = mib; left > 0; left -= 1) response.write(block);
  response.end();
}

/**
 * Builds a gzip body from `head`, `unit` repeated `times` times, and `tail`. Repeats one compressed member, so that large bombs
 * are quick to build.
 */
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

/** Returns a service with one large response per list. */
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

/** Returns a service that lists `keys` distinct flow-control keys. Its other responses are correct. */
const withKeys = (name: string, keys: number, make: () => string): HostileService => ({
  name,
  outcome: 'ok',
  budget: RARE,
  shows: { delivery_flow_control_keys: keys },
  start(site) {
    const body = Buffer.from(make());
    return listenHttp(site, (listRequest, response) =>
      listRequest.list === 'flow_control' ? response.end(body) : json(response, healthyResponse(listRequest)),
    );
  },
});

const rowsOfKeys = (count: number, key: (index: number) => string) =>
  JSON.stringify(Array.from({ length: count }, (_, index) => ({ flowControlKey: key(index), waitListSize: index })));

/** Text that is hard to escape in label values, log lines or pages. */
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
  ' 1\ndelivery_up{account="healthy-1"} 0\n',
];

/** Serves endless pages with cursors longer than `length` characters. */
const longCursors =
  (length: number): HostileService['start'] =>
  site => {
    let pages = 0;
    const tail = 'x'.repeat(length);
    return listenRaw(site, (listRequest, socket) => {
      pages += 1;
      socket.write(packet(JSON.stringify({ [FIELD[listRequest.list]]: [], cursor: `${pages}-${tail}` })));
    });
  };

/** Services with excessive numbers or sizes of rows, pages and keys. */
export const sizeServices: readonly HostileService[] = [
  {
    name: 'pages-of-17-mib',
    outcome: 'ok',
    start(site) {
      // The agent learns the page size of each path.
      const counts = new Map<string, { pages: number; inVain: number }>();
      return listenHttp(site, (listRequest, response) => {
        const { list, path, query } = listRequest;
        if (list === 'flow_control') return json(response, healthyResponse(listRequest));
        const count = counts.get(path) ?? { pages: 0, inVain: 0 };
        counts.set(path, count);
        if (Number(query.get('count')) <= 12) {
          count.pages += 1;
          return json(response, { [FIELD[list]]: [] });
        }
        count.inVain += Number(count.pages > 0);
        // One request may have been in flight, and the agent doubles the page size again after 16 pages.
        if (count.inVain > 1 + Math.ceil(count.pages / 16))
          site.complain(
            `${path}: ${count.inVain} requests for a page size that was too large, ${count.pages} for others`,
          );
        return sendBlanks(response, 17);
      });
    },
  },
  {
    name: 'keys-of-33-mib',
    outcome: { ...every('ok' as const), flow_control: 'invalid_response' },
    budget: { requestsPerSecond: 0.2, burst: 16 },
    start: site =>
      listenHttp(site, (listRequest, response) =>
        listRequest.list === 'flow_control' ? sendBlanks(response, 33) : json(response, healthyResponse(listRequest)),
      ),
  },
  {
    name: 'gzip-of-half-a-gib',
    outcome: { ...every('ok' as const), flow_control: 'invalid_response' },
    budget: RARE,
    start(site) {
      const body = packed('', ' ', 512 * MIB, '');
      return listenHttp(site, (listRequest, response) =>
        listRequest.list === 'flow_control'
          ? response.writeHead(200, GZIP).end(body)
          : json(response, healthyResponse(listRequest)),
      );
    },
  },
  bomb(
    'a-million-rows',
    list => packed(`{"${FIELD[list]}":[`, '{},', 1_000_001, '{}]}'),
    'invalid_response',
    INVALID_CONTENT,
  ),
  {
    name: 'eleven-times-the-rows',
    outcome: paged('invalid_response'),
    counted: 'none',
    start: site =>
      listenHttp(site, (listRequest, response) => {
        const count = listRequest.list === 'flow_control' ? 3 : Number(listRequest.query.get('count')) * 11;
        json(response, {
          [FIELD[listRequest.list]]: Array.from({ length: count }, (_, index) => ({
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
      listenRaw(site, (_listRequest, socket) => {
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
    // Each read adds new messages that never reach a final state.
    name: 'endless-lifecycles',
    outcome: 'ok',
    budget: { requestsPerSecond: 5, burst: 20 },
    start(site) {
      let messages = 0;
      return listenHttp(site, (listRequest, response) => {
        if (listRequest.list !== 'events') return json(response, healthyResponse(listRequest));
        const time = Number(listRequest.query.get('toDate'));
        const events = Array.from({ length: 1000 }, () => ({ messageId: `msg_${messages++}`, state: 'CREATED', time }));
        const pages = Number(listRequest.query.get('cursor') ?? 1);
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
    'colliding-keys',
    // All are counted, although UTF-8 encoding replaces every lone surrogate with the same character.
    2000,
    () => rowsOfKeys(2000, index => `k${String.fromCharCode(0xd800 + (index % 1024))}${index < 1024 ? '' : '!'}`),
  ),
  withKeys('reserved-key-names', 3, () => rowsOfKeys(3, index => ['__other__', '', 'constructor'][index] as string)),
];

/** Services with extreme responses. They run only if selected by name. */
export const severeServices: readonly HostileService[] = [
  bomb(
    'eleven-million-objects',
    list => packed(`{"${FIELD[list]}":[`, '{},', 11_000_000, '{}]}'),
    'invalid_response',
    INVALID_CONTENT,
  ),
  bomb('forty-million-keys', () => packed('[', '{},', 40_000_000, '{}]'), 'invalid_response', INVALID_CONTENT),
  bomb('nested-sixty-million-deep', () => packed('', '[', 60_000_000, ''), 'invalid_response', { budget: RARE }),
  {
    ...bomb('a-million-names', () => Buffer.alloc(0), 'invalid_response', INVALID_CONTENT),
    start(site) {
      const names = Array.from({ length: 1_000_000 }, (_, index) => `"${index.toString(36)}":0`);
      const body = gzipSync(`{"messages":[],"events":[],"flowControls":[],${names}}`);
      return listenHttp(site, (_listRequest, response) => response.writeHead(200, GZIP).end(body));
    },
  },
  {
    name: 'cursors-of-a-mib',
    outcome: paged('unending'),
    counted: 'none',
    start: longCursors(MIB),
  },
];
