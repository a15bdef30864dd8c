import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { listenHttp } from './listen.ts';
import { type Answer, type Asked, every, type HostileService, json, LISTS, type List, paged } from './service.ts';
import { WELL, wellAnswer } from './well-service.ts';

/** A service that answers 200 with the same bytes, whatever is asked. */
const saying = (name: string, body: string | Buffer, headers: Readonly<Record<string, string>> = {}) =>
  answering(name, 'invalid_response', (_asked, response) => response.writeHead(200, headers).end(body));

const answering = (
  name: string,
  outcome: HostileService['outcome'],
  answer: Answer,
  more: Partial<HostileService> = {},
): HostileService => ({ name, outcome, ...more, start: site => listenHttp(site, answer) });

/** JSON that is sound by itself and no answer to what was asked. Whether it counts as a good request is not said here. */
const meaning = (name: string, body: unknown, outcome: HostileService['outcome'] = 'invalid_response') =>
  answering(name, outcome, (_asked, response) => json(response, body), { counted: 'none' });

/** The name of each list in its answer. */
export const FIELD: Readonly<Record<List, string>> = {
  dlq: 'messages',
  events: 'events',
  flow_control: 'flowControls',
};
/** The same answer, but for the name of the list, whichever is asked for. */
const meaningOfEach = (
  name: string,
  bodyOf: (field: string, asked: Asked) => unknown,
  outcome: HostileService['outcome'] = 'invalid_response',
  more: Partial<HostileService> = {},
) =>
  answering(name, outcome, (asked, response) => json(response, bodyOf(FIELD[asked.list], asked)), {
    counted: 'none',
    ...more,
  });

/** Every row of the right answer, changed. */
const withRows = (field: string, asked: Asked, change: (row: object, index: number) => unknown) => {
  const right = wellAnswer(asked) as Readonly<Record<string, readonly object[]>>;
  return { ...right, [field]: right[field]?.map(change) };
};
const renamed = (row: object) => Object.fromEntries(Object.entries(row).map(([name, value]) => [`${name}_2`, value]));

const inEachField = (value: unknown) => Object.fromEntries(LISTS.map(list => [FIELD[list], value]));

/** The right answer with each number that is a time, and each text that is one, replaced. */
function withTimes(replace: (time: number) => unknown): Answer {
  return (asked, response) => {
    const text = JSON.stringify(wellAnswer(asked), (name, value) =>
      name === 'time' || name === 'createdAt' ? replace(value as number) : value,
    );
    response.writeHead(200, { date: new Date(Number(replace(Date.now())) || 0).toUTCString() }).end(text);
  };
}

const YEAR = 365 * 86_400_000;
/** An event without a time is none. */
const NO_EVENT = { ...every('ok' as const), events: 'invalid_response' } as const;
const counted = { counted: 'none', shows: { delivery_dlq_messages: WELL.deadLetters } } as const;

/** Faults of what is answered: no JSON, other JSON, other encodings, cursors in a circle, clocks that are off. */
export const answerServices: readonly HostileService[] = [
  saying('html', '<!doctype html><title>Bad gateway</title><h1>It works</h1>', { 'content-type': 'text/html' }),
  saying('truncated-json', '{"messages":[{"dlqId":"1-0"},{"dlqI'),
  saying('empty', ''),
  saying('not-a-number', '{"messages":[],"events":[],"flowControls":[],"x":NaN}'),
  saying('json-lines', '{"messages":[]}\n{"messages":[]}\n'),
  saying('utf-16', Buffer.from('\ufeff[]', 'utf16le')),
  answering('no-content', 'invalid_response', (_asked, response) => response.writeHead(204).end()),

  saying('gzip-that-is-none', '[]', { 'content-encoding': 'gzip' }),
  saying('gzip-cut-short', gzipSync(JSON.stringify(inEachField([]))).subarray(0, -6), { 'content-encoding': 'gzip' }),
  saying('gzip-not-said', gzipSync('[]')),
  saying('unasked-brotli', brotliCompressSync('[]'), { 'content-encoding': 'br' }),
  saying('unasked-deflate', deflateSync('[]'), { 'content-encoding': 'deflate' }),
  saying('unknown-encoding', '[]', { 'content-encoding': 'constructor' }),
  saying('packed-twice', gzipSync(gzipSync('[]')), { 'content-encoding': 'gzip, gzip' }),

  meaning('null', null, 'ok'),
  meaning('number', 42),
  meaning('text', 'messages'),
  meaning('array', [], paged('invalid_response')),
  meaning('error-with-200', { error: 'no such user' }),
  meaning('no-list', {}, 'ok'),
  meaning('list-is-text', inEachField('none')),
  meaning('list-is-number', inEachField(0)),
  meaning('list-is-object', inEachField({ length: 3 })),
  meaning('cursor-is-object', { ...inEachField([]), cursor: { next: 1 } }),
  meaningOfEach('list-is-null', field => ({ [field]: null }), 'ok'),
  meaningOfEach('list-is-null-beside-another-member', field => ({ [field]: null, total: 0 })),
  meaningOfEach('error-beside-an-empty-list', field => ({ [field]: [], error: 'upstream is not available' })),
  meaningOfEach('error-beside-the-right-list', (_field, asked) => ({ ...wellAnswer(asked), error: { code: 7 } })),
  meaning('maintenance', { message: 'maintenance' }),
  meaning('rows-are-null', inEachField([null])),
  meaning('rows-are-none', inEachField([null, 1, 'x', true, [], [[]], {}, { messageId: {} }])),
  meaningOfEach('fields-are-renamed', (field, asked) => withRows(field, asked, renamed)),
  meaningOfEach('list-is-renamed', (_field, asked) => ({ items: Object.values(wellAnswer(asked))[0] })),
  meaningOfEach(
    'some-rows-are-renamed',
    (field, asked) => withRows(field, asked, (row, index) => (index % 2 > 0 ? renamed(row) : row)),
    'ok',
    { shows: { delivery_dlq_messages: WELL.deadLetters, delivery_flow_control_keys: 3 } },
  ),
  meaningOfEach(
    'words-of-prototypes',
    (field, asked) =>
      withRows(field, asked, row => ({ ...row, state: 'constructor', failureFunctionState: '__proto__' })),
    'ok',
    { shows: { delivery_dlq_messages: WELL.deadLetters } },
  ),
  meaning('names-of-prototypes', JSON.parse('{"__proto__":{"messages":[]},"constructor":[],"toString":1}')),

  meaning('same-cursor', { ...inEachField([]), cursor: 'again' }, paged('invalid_response')),
  answering(
    'cursors-in-a-circle',
    paged('invalid_response'),
    ({ query }, response) =>
      json(response, { ...inEachField([]), cursor: String((Number(query.get('cursor') ?? 0) + 1) % 20) }),
    { counted: 'none' },
  ),
  {
    name: 'pages-for-ever',
    outcome: paged('unending' as const),
    counted: 'none',
    budget: { requestsPerSecond: 200, burst: 1 },
    start(site) {
      let pages = 0;
      return listenHttp(site, (_asked, response) => {
        pages += 1;
        json(response, { ...inEachField([]), cursor: `page-${pages}` });
      });
    },
  },
  {
    name: 'cursor-that-is-a-request',
    outcome: 'ok',
    start(site) {
      const cursor = `x&count=1#\r\nHost: elsewhere.invalid\r\n\r\n GET ${site.trap} \u0000\ud800é/../..%2f`;
      return listenHttp(site, ({ query }, response) => {
        const back = query.get('cursor');
        if (back !== null && back !== cursor.toWellFormed()) site.complain('a cursor that came back as another');
        json(response, { ...inEachField([]), ...(back === null ? { cursor } : {}) });
      });
    },
  },

  answering(
    'years-ahead',
    'ok',
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
