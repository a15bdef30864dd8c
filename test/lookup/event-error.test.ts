import { expect, it } from 'vitest';
import { toTable } from '../../src/cli/table.ts';
import { createRedactor } from '../../src/kit/redaction.ts';
import { eventList } from '../../src/lookup/lists.ts';
import { describeStep, messageJson, readMessage } from '../../src/lookup/message.ts';
import { readNewest } from '../../src/lookup/read.ts';
import { toDetailedEvent } from '../../src/upstream/wire.ts';
import { allRows, createTestClient } from '../support/client.ts';
import { json, serve } from '../support/http-service.ts';
import { liveBytes } from '../support/live-bytes.ts';

const SECRET = 'canary-secret-4711-abcdef';
const { signal } = new AbortController();

/** Serves the rows as the event log, and an empty dead-letter queue. Returns a reader that redacts `SECRET`. */
async function readerOf(rows: readonly object[]) {
  const service = await serve((request, response) =>
    json(response, request.url?.startsWith('/v2/events') ? { events: rows } : { messages: [] }),
  );
  return createTestClient(service.url, { secrets: () => [SECRET] }).reader;
}

const row = (state: string, time: number, more: object = {}) => ({ messageId: 'm', state, time, ...more });

/** The documented rows of a message that fails twice. */
const ROWS = [
  row('CREATED', 1764320000000, { nextDeliveryTime: 1764320060000 }),
  row('ACTIVE', 1764320060000),
  row('ERROR', 1764320061000, { error: 'error response from endpoint: 503', responseStatus: 503 }),
  row('RETRY', 1764320061000, { nextDeliveryTime: 1764320090000 }),
  row('ACTIVE', 1764320090000),
  row('ERROR', 1764320091000, { error: 'dial tcp: lookup app.example.com on 10.0.0.2:53: no such host' }),
  row('FAILED', 1764320091000, { error: '' }),
];

it('the timeline of a message contains the reason of each failed attempt', async () => {
  const message = await readMessage({ account: 'a', reader: await readerOf(ROWS) }, 'm', signal);
  if (!message) throw new Error('no message');
  const { events } = messageJson(message);
  expect(events.map(({ error }) => error)).toEqual([
    undefined,
    undefined,
    'error response from endpoint: 503',
    undefined,
    undefined,
    'dial tcp: lookup app.example.com on 10.0.0.2:53: no such host',
    undefined,
  ]);
  expect(events.map(step => describeStep(step, events).details)).toContain(
    'attempt 2, took 1 s, error: dial tcp: lookup app.example.com on 10.0.0.2:53: no such host',
  );
});

it.each([
  ['the token', `refused: ${SECRET} is unknown`, 'refused: <secret> is unknown'],
  ['a part of the token in base64', `no ${Buffer.from(`x:${SECRET}`).toString('base64')}`, 'no <secret>'],
  ['an Authorization header', 'sent Authorization: Bearer abcdef0123456789', 'sent Authorization: Bearer <secret>'],
  [
    'credentials in a URL',
    'Post "https://u:p@app.example.com/x?key=abc": EOF',
    'Post "https://<secret>app.example.com/x?key=<secret>": EOF',
  ],
  ['terminal escapes', 'a\u001b[31mb\u009b2Jc\u0007', 'abc\u{fffd}'],
  ['bidirectional controls', 'a\u202eb\u2066c', 'a\u{fffd}b\u{fffd}c'],
  ['lines', 'first\r\n\tsecond', 'first second'],
  ['a lone surrogate', 'a\ud83d', 'a\u{fffd}'],
  ['HTML', '<script>alert(1)</script>', '<script>alert(1)</script>'],
  ['4 MB', 'x y '.repeat(1024 * 1024), `${'x y '.repeat(50).slice(0, 199)}…`],
  ['blanks', ' \n\u200b'.slice(0, 2), undefined],
  ['an object', { message: 'no' }, undefined],
  ['a number', 503, undefined],
  ['null', null, undefined],
])('the error of an event that contains %s is shown without it', async (_what, error, shown) => {
  const reader = await readerOf([row('ERROR', 1764320061000, { error })]);
  const { rows } = await readNewest(eventList({}), reader, { limit: 1, signal });
  const [found] = rows.map(event => JSON.parse(JSON.stringify(eventList({}).json(event))).error);
  expect(found).toBe(shown);
  // The table of the command line does not change the text further, so the text is printable.
  if (shown !== undefined) expect(toTable(['error'], [[found]])).toBe(`error\n${shown}`);
});

it.each([undefined, 'detail'] as const)('reads for the collectors (%s) keep no error texts', async extra => {
  const rows = await allRows((await readerOf(ROWS)).eventPages({}, signal, extra));
  expect(rows).toHaveLength(ROWS.length);
  expect(JSON.stringify(rows)).not.toMatch(/error response|no such host/);
});

it('events with error texts of 4 MB keep only 200 characters of each in memory', () => {
  const redact = createRedactor([], 200);
  const before = liveBytes();
  const events = Array.from({ length: 20 }, () =>
    toDetailedEvent(
      JSON.parse(JSON.stringify(row('ERROR', 1764320061000, { error: 'x.'.repeat(2 * 1024 * 1024) }))),
      1764320061000,
      redact,
    ),
  );
  expect(liveBytes() - before).toBeLessThan(20 * 1024 * 1024);
  expect(events.map(event => event?.error?.length)).toEqual(Array(20).fill(200));
});
