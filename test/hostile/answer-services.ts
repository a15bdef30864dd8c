import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { HEALTHY, healthyResponse } from './healthy-service.ts';
import { listenHttp } from './listen.ts';
import { type Answer, every, type HostileService, json, LISTS, type List, type ListRequest, paged } from './service.ts';

/** Creates a service that responds to every request with status 200 and `body`. */
const responding = (name: string, body: string | Buffer, headers: Readonly<Record<string, string>> = {}) =>
  answering(name, 'invalid_response', (_listRequest, response) => response.writeHead(200, headers).end(body));

const answering = (
  name: string,
  outcome: HostileService['outcome'],
  answer: Answer,
  more: Partial<HostileService> = {},
): HostileService => ({ name, outcome, ...more, start: site => listenHttp(site, answer) });

/** Creates a service that responds with valid JSON but unexpected content. Requests to it may count as successful. */
const respondingJson = (name: string, body: unknown, outcome: HostileService['outcome'] = 'invalid_response') =>
  answering(name, outcome, (_listRequest, response) => json(response, body), { counted: 'none' });

/** Name of the list field in each response. */
export const FIELD: Readonly<Record<List, string>> = {
  dlq: 'messages',
  events: 'events',
  flow_control: 'flowControls',
};
/** Like `respondingJson`, with a body that depends on the requested list. */
const respondingJsonPerList = (
  name: string,
  bodyOf: (field: string, listRequest: ListRequest) => unknown,
  outcome: HostileService['outcome'] = 'invalid_response',
  more: Partial<HostileService> = {},
) =>
  answering(name, outcome, (listRequest, response) => json(response, bodyOf(FIELD[listRequest.list], listRequest)), {
    counted: 'none',
    ...more,
  });

/** Returns the correct response with every row changed by `change`. */
const withRows = (field: string, listRequest: ListRequest, change: (row: object, index: number) => unknown) => {
  const right = healthyResponse(listRequest) as Readonly<Record<string, readonly object[]>>;
  return { ...right, [field]: right[field]?.map(change) };
};
const renamed = (row: object) => Object.fromEntries(Object.entries(row).map(([name, value]) => [`${name}_2`, value]));

const inEachField = (value: unknown) => Object.fromEntries(LISTS.map(list => [FIELD[list], value]));

/** Returns an `Answer` that sends the correct response with every timestamp replaced, including the Date header. */
function withTimes(replace: (time: number) => unknown): Answer {
  return (listRequest, response) => {
    const text = JSON.stringify(healthyResponse(listRequest), (name, value) =>
      name === 'time' || name === 'createdAt' ? replace(value as number) : value,
    );
    response.writeHead(200, { date: new Date(Number(replace(Date.now())) || 0).toUTCString() }).end(text);
  };
}

const YEAR = 365 * 86_400_000;
/** Outcome for each list if all times are invalid: only events require a valid time. */
const NO_EVENT = { ...every('ok' as const), events: 'invalid_response' } as const;
const counted = { counted: 'none', shows: { delivery_dlq_messages: HEALTHY.deadLetters } } as const;

/** Services with unusual responses: no JSON, unexpected JSON, wrong encodings, cyclic cursors, clock skew. */
export const answerServices: readonly HostileService[] = [
  responding('html', '<!doctype html><title>Bad gateway</title><h1>It works</h1>', { 'content-type': 'text/html' }),
  responding('truncated-json', '{"messages":[{"dlqId":"1-0"},{"dlqI'),
  responding('empty', ''),
  responding('not-a-number', '{"messages":[],"events":[],"flowControls":[],"x":NaN}'),
  responding('json-lines', '{"messages":[]}\n{"messages":[]}\n'),
  responding('utf-16', Buffer.from('\ufeff[]', 'utf16le')),
  answering('no-content', 'invalid_response', (_listRequest, response) => response.writeHead(204).end()),

  responding('invalid-gzip', '[]', { 'content-encoding': 'gzip' }),
  responding('gzip-cut-short', gzipSync(JSON.stringify(inEachField([]))).subarray(0, -6), {
    'content-encoding': 'gzip',
  }),
  responding('undeclared-gzip', gzipSync('[]')),
  responding('unrequested-brotli', brotliCompressSync('[]'), { 'content-encoding': 'br' }),
  responding('unrequested-deflate', deflateSync('[]'), { 'content-encoding': 'deflate' }),
  responding('unknown-encoding', '[]', { 'content-encoding': 'constructor' }),
  responding('packed-twice', gzipSync(gzipSync('[]')), { 'content-encoding': 'gzip, gzip' }),

  respondingJson('null', null, 'ok'),
  respondingJson('number', 42),
  respondingJson('text', 'messages'),
  respondingJson('array', [], paged('invalid_response')),
  respondingJson('error-with-200', { error: 'no such user' }),
  respondingJson('no-list', {}, 'ok'),
  respondingJson('list-is-text', inEachField('none')),
  respondingJson('list-is-number', inEachField(0)),
  respondingJson('list-is-object', inEachField({ length: 3 })),
  respondingJson('cursor-is-object', { ...inEachField([]), cursor: { next: 1 } }),
  respondingJsonPerList('list-is-null', field => ({ [field]: null }), 'ok'),
  {
    name: 'lists-vanish',
    outcome: 'ok',
    counted: 'none',
    // Three rounds agree that the lists are empty.
    shows: { delivery_dlq_messages: 0, delivery_flow_control_keys: 0 },
    start(site) {
      const lists = new Map<List, number>();
      return listenHttp(site, (listRequest, response) => {
        const requests = (lists.get(listRequest.list) ?? 0) + 1;
        lists.set(listRequest.list, requests);
        // The first walk takes four requests.
        const isFirstRound = requests <= (listRequest.list === 'dlq' ? 4 : 1);
        json(response, isFirstRound ? healthyResponse(listRequest) : {});
      });
    },
  },
  respondingJsonPerList('list-is-null-beside-another-member', field => ({ [field]: null, total: 0 })),
  respondingJsonPerList('error-beside-an-empty-list', field => ({ [field]: [], error: 'upstream is not available' })),
  respondingJsonPerList('error-next-to-the-correct-list', (_field, listRequest) => ({
    ...healthyResponse(listRequest),
    error: { code: 7 },
  })),
  respondingJson('maintenance', { message: 'maintenance' }),
  respondingJson('rows-are-null', inEachField([null])),
  respondingJson('rows-are-none', inEachField([null, 1, 'x', true, [], [[]], {}, { messageId: {} }])),
  respondingJsonPerList('fields-are-renamed', (field, listRequest) => withRows(field, listRequest, renamed)),
  respondingJsonPerList('list-is-renamed', (_field, listRequest) => ({
    items: Object.values(healthyResponse(listRequest))[0],
  })),
  respondingJsonPerList(
    'some-rows-are-renamed',
    (field, listRequest) => withRows(field, listRequest, (row, index) => (index % 2 > 0 ? renamed(row) : row)),
    'ok',
    { shows: { delivery_dlq_messages: HEALTHY.deadLetters, delivery_flow_control_keys: 3 } },
  ),
  respondingJsonPerList(
    'words-of-prototypes',
    (field, listRequest) =>
      withRows(field, listRequest, row => ({ ...row, state: 'constructor', failureFunctionState: '__proto__' })),
    'ok',
    { shows: { delivery_dlq_messages: HEALTHY.deadLetters } },
  ),
  respondingJson('names-of-prototypes', JSON.parse('{"__proto__":{"messages":[]},"constructor":[],"toString":1}')),

  respondingJson('same-cursor', { ...inEachField([]), cursor: 'again' }, paged('invalid_response')),
  answering(
    'cursors-in-a-circle',
    paged('invalid_response'),
    ({ query }, response) =>
      json(response, { ...inEachField([]), cursor: String((Number(query.get('cursor') ?? 0) + 1) % 20) }),
    { counted: 'none' },
  ),
  {
    name: 'endless-pages',
    outcome: paged('unending' as const),
    counted: 'none',
    budget: { requestsPerSecond: 200, burst: 1 },
    start(site) {
      let pages = 0;
      return listenHttp(site, (_listRequest, response) => {
        pages += 1;
        json(response, { ...inEachField([]), cursor: `page-${pages}` });
      });
    },
  },
  {
    name: 'cursor-like-a-request',
    outcome: 'ok',
    start(site) {
      const cursor = `x&count=1#\r\nHost: elsewhere.invalid\r\n\r\n GET ${site.trap} \u0000\ud800é/../..%2f`;
      return listenHttp(site, ({ query }, response) => {
        const back = query.get('cursor');
        if (back !== null && back !== cursor.toWellFormed()) site.complain('a changed cursor');
        json(response, { ...inEachField([]), ...(back === null ? { cursor } : {}) });
      });
    },
  },

  answering('cached-for-hours', 'invalid_response', (listRequest, response) =>
    json(response, healthyResponse(listRequest), { age: '7200' }),
  ),
  answering(
    'unreadable-ages',
    'ok',
    (listRequest, response) => json(response, healthyResponse(listRequest), { age: '-1, abc' }),
    counted,
  ),

  answering(
    'years-ahead',
    NO_EVENT,
    withTimes(time => time + 30 * YEAR),
    counted,
  ),
  answering(
    'hours-behind',
    'ok',
    withTimes(time => time - 7 * 3_600_000),
    counted,
  ),
  answering(
    'times-below-zero',
    NO_EVENT,
    withTimes(time => -time),
    counted,
  ),
  answering(
    'times-beyond-dates',
    NO_EVENT,
    withTimes(() => 1e18),
    counted,
  ),
  answering(
    'times-beyond-numbers',
    NO_EVENT,
    withTimes(() => '1e999'),
    counted,
  ),
  answering(
    'times-as-text',
    'ok',
    withTimes(time => new Date(time).toISOString()),
    counted,
  ),
  answering(
    'times-are-objects',
    NO_EVENT,
    withTimes(time => ({ seconds: time })),
    counted,
  ),
];
