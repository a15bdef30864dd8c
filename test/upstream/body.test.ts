import { setImmediate as nextTurn } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bounded, inSlices, readBody } from '../../src/upstream/body.ts';
import { UpstreamError } from '../../src/upstream/errors.ts';
import { runs } from '../support/runs.ts';

const LARGEST = 32 * 1024 * 1024;
/** Padding that makes a body large: it is scanned and parsed in its own turn of the event loop. */
const PADDING = 'x'.repeat(1_100_000);

async function* chunksOf(bytes: Buffer, length = bytes.length) {
  for (let at = 0; at < bytes.length; at += length) yield bytes.subarray(at, at + length);
}

const read = (text: string | Buffer, length?: number, encoding = 'identity') =>
  readBody(chunksOf(Buffer.from(text), length), encoding, { what: 'GET /v2/dlq', largest: LARGEST });

const failureOf = (text: string | Buffer, length?: number) =>
  read(text, length).then(
    () => 'none',
    error => `${error.reason}: ${error.message}`,
  );

const namesOf = (count: number, first = 0) => Array.from({ length: count }, (_, index) => `"n${first + index}":0`);

const NOT_JSON = 'invalid_response: GET /v2/dlq: not JSON';

/** Returns a small and a large body. */
const sizes = (text: string) => [
  `{"messages":[${text}],"padding":""}`,
  `{"messages":[${text}],"padding":"${PADDING}"}`,
];

describe('response bodies', () => {
  it('a body has the value that JSON.parse returns, regardless of how it is split into chunks', async () => {
    const value = fc.oneof(
      fc.json(),
      fc.json({ stringUnit: 'binary' }),
      fc.constantFrom('"\\u2028"', '"\\ud800"', '-0'),
    );
    await fc.assert(
      fc.asyncProperty(value, fc.integer({ min: 1, max: 9 }), async (text, length) => {
        expect(await read(text, length)).toEqual(JSON.parse(Buffer.from(text).toString()));
      }),
      { numRuns: runs(1000) },
    );
  });

  it('a large body has the value that JSON.parse returns, wherever it contains rows and other values', async () => {
    const value = fc.oneof(
      fc.json(),
      fc.constantFrom(
        '"],["',
        '"\\\\"',
        '[0]',
        '[[1],{}]',
        '{"__proto__":[[2]]}',
        ` [ 3 , {"a" : "${PADDING.slice(0, 70_000)}"} ] `,
      ),
    );
    const body = fc.tuple(fc.array(value), fc.array(value), value, fc.integer({ min: 0, max: 3 }));
    await fc.assert(
      fc.asyncProperty(body, async ([rows, others, member, place]) => {
        const members = [`"messages":[${rows}]`, `"__proto__":[${others}]`, `"messages":${member}`, `"p":"${PADDING}"`];
        const texts = [
          `{${members.toSpliced(place, 0, ...members.splice(3))}}`,
          `[${[...rows, `"${PADDING}"`, ...others]}]`,
        ];
        for (const text of texts) expect(await read(text, 65_536)).toEqual(JSON.parse(text));
      }),
      { numRuns: runs(50) },
    );
  });

  it.each([
    ['truncated in a string', '{"dlqId":"1-'],
    ['truncated after a comma', '{"dlqId":"1-0"},'],
    ['with a missing comma', '{"dlqId":"1-0"} {"dlqId":"2-0"}'],
    ['with mixed brackets', '{"dlqId":["1-0"}]'],
    ['with a control character in a string', '{"dlqId":"\n"}'],
    ['with NaN', '{"createdAt":NaN}'],
    ['with single quotes', "{'dlqId':'1-0'}"],
    ['with an unknown escape', '{"dlqId":"\\x31"}'],
  ])('a small or large body is rejected as invalid_response when it is %s', async (_what, text) => {
    for (const body of sizes(text)) expect(await failureOf(body, 65_536)).toBe(NOT_JSON);
  });

  it.each([
    ['empty', ''],
    ['blank', ' \n'],
    ['truncated', '[{"dlqId":"1-0"}'],
    ['followed by garbage', '[]x'],
    ['followed by another value', '{} {}'],
    ['followed by NUL', '[]\0'],
    ['preceded by two byte order marks', '\ufeff\ufeff[]'],
    ['HTML', '<html></html>'],
    ['UTF-16', Buffer.from('[]', 'utf16le')],
  ])('a body is rejected as invalid_response when it is %s', async (_what, body) => {
    expect(await failureOf(body, 1)).toBe(NOT_JSON);
  });

  it('a body may start with a byte order mark', async () => {
    for (const body of sizes('1')) expect(await read(`\ufeff${body}`, 1_000_000)).toEqual(JSON.parse(body));
    expect(await read('\ufeff[1]', 1)).toEqual([1]);
  });

  it('a body may start and end with white space', async () => {
    for (const body of sizes('{"dlqId":"1-0"}')) {
      for (const space of [' ', '\r\n\t']) {
        expect(await read(`${space}${body}${space}`, 65_536)).toEqual(JSON.parse(body));
        expect(await read(`${space}[${body}]${space}`, 65_536)).toEqual([JSON.parse(body)]);
      }
    }
    expect(await read(` {"padding":"${PADDING}"}`)).toEqual({ padding: PADDING });
  });

  it('a body keeps the last value of a duplicate key, and __proto__ as an ordinary own property', async () => {
    for (const body of sizes('{"a":1,"a":2,"__proto__":{"dlqId":"3-0"},"constructor":4}')) {
      const { messages } = (await read(body)) as { messages: Record<string, unknown>[] };
      expect(Object.entries(messages[0] ?? {})).toEqual([
        ['a', 2],
        ['__proto__', { dlqId: '3-0' }],
        ['constructor', 4],
      ]);
      expect(Object.getPrototypeOf(messages[0])).toBe(Object.prototype);
    }
  });

  it('invalid UTF-8 in a body becomes a replacement character, and characters split across chunks stay whole', async () => {
    const body = Buffer.concat([Buffer.from('["é👩‍👧\u{10ffff}'), Buffer.from([0xff, 0xe2, 0x82]), Buffer.from('x"]')]);
    for (const length of [1, 2, 3, 5, 7]) expect(await read(body, length)).toEqual(['é👩‍👧\u{10ffff}\ufffd\ufffdx']);
  });

  it('a body is decompressed, and rejected when the compressed bytes are damaged', async () => {
    const [, body = ''] = sizes('1');
    const packed = gzipSync(body);
    expect(await read(packed, 100, 'GZip')).toEqual(JSON.parse(body));
    const damaged = Buffer.from(packed);
    // The last 8 bytes are checksum and length.
    damaged.fill(0, packed.length - 8);
    for (const bytes of [damaged, packed.subarray(0, -20)]) {
      await expect(read(bytes, 100, 'gzip')).rejects.toSatisfy(
        error => error instanceof UpstreamError && error.message === 'GET /v2/dlq: invalid gzip data',
      );
    }
    await expect(read(packed, 100, 'br')).rejects.toThrow('unexpected content encoding');
  });

  it('reading a body stops at the limit on its decompressed size', async () => {
    let sent = 0;
    async function* endless() {
      for (const chunk = Buffer.alloc(65_536, ' '); ; sent += chunk.length) yield chunk;
    }
    const bounds = { what: 'GET /v2/dlq', largest: LARGEST };
    const message = `GET /v2/dlq: response body of at least ${LARGEST + 65_536} bytes; the limit is ${LARGEST} bytes`;
    await expect(readBody(bounded(endless(), bounds), 'identity', bounds)).rejects.toMatchObject({
      message,
      tooLarge: true,
    });
    expect(sent).toBe(LARGEST);
    const bomb = gzipSync(Buffer.alloc(LARGEST + 1, ' '));
    await expect(readBody(chunksOf(bomb, 65_536), 'gzip', bounds)).rejects.toMatchObject({ tooLarge: true });
  });

  it.each([
    ['levels', 'more than 200 levels', `{"messages":${'['.repeat(2_000_000)}`],
    [
      'levels after others have ended',
      'more than 200 levels',
      `["${PADDING}",${'[],'.repeat(200)}${'[{"a":'.repeat(100)}0`,
    ],
    ['empty objects', 'more than 1000000 values', `[${'{},'.repeat(1_000_000)}{}]`],
    ['members', 'more than 1000000 values', `{${namesOf(1_000_001)}}`],
  ])('a body with too many %s is not parsed', async (_what, excess, body) => {
    expect(await failureOf(body, 65_536)).toBe(`invalid_response: GET /v2/dlq: response body with ${excess}`);
  });

  it('a body is parsed even if its strings contain brackets, quotes and backslashes', async () => {
    const strings = ['{[,"\\'.repeat(1_000_000), '\\', '"', '\\"', '],}', '\\\\"['.repeat(100_000)];
    expect(await read(JSON.stringify(strings), 65_536)).toEqual(strings);
  });
});

describe('bodies above 1 MiB', () => {
  const bounds = { what: 'GET /v2/dlq', largest: LARGEST };
  const MIB = 1024 * 1024;
  const CHUNKS = 15;

  /** Starts to read a body of 15 MiB that ends when `end` is called. */
  function start(signal = new AbortController().signal) {
    const end = Promise.withResolvers<void>();
    const body = { chunks: 0, end: end.resolve, fail: end.reject };
    async function* chunks() {
      for (; body.chunks < CHUNKS; body.chunks += 1) yield Buffer.alloc(MIB, ' ');
      await end.promise;
      yield Buffer.from('1');
    }
    const result = readBody(chunks(), 'identity', bounds, signal);
    result.catch(() => undefined);
    return { body, result };
  }
  const chunksRead = (bodies: readonly ReturnType<typeof start>[]) =>
    bodies.reduce((sum, { body }) => sum + body.chunks, 0);

  it('stalled bodies take at most 128 MiB plus 1 MiB each, do not delay small bodies, and are read in the order of their start', async () => {
    const bodies = Array.from({ length: 16 }, () => start());
    await nextTurn();
    expect(chunksRead(bodies)).toBeGreaterThan(96);
    expect(chunksRead(bodies)).toBeLessThanOrEqual(128 + 16);
    expect(await read('"small"')).toBe('small');
    for (const [index, { body, result }] of bodies.entries()) {
      expect(body.chunks).toBe(CHUNKS);
      expect(chunksRead(bodies) - index * CHUNKS).toBeLessThanOrEqual(128 + 16);
      body.fail(new Error('cut off'));
      await expect(result).rejects.toThrow('cut off');
      await nextTurn();
    }
  });

  it('a large body waits for memory until others have ended, or until its signal is aborted', async () => {
    const stalled = Array.from({ length: 10 }, () => start());
    const stop = new AbortController();
    const stopped = start(stop.signal);
    const waiting = start();
    await nextTurn();
    expect([stopped, waiting].map(({ body }) => body.chunks)).not.toContain(CHUNKS);
    stop.abort(new Error('stopping'));
    await expect(stopped.result).rejects.toThrow('stopping');
    for (const { body } of stalled) body.fail(new Error('cut off'));
    waiting.body.end();
    expect(await waiting.result).toBe(1);
  });

  it('large bodies are parsed in separate turns of the event loop', async () => {
    const text = `[${'{"a":[0]},'.repeat(120_000)}{}]`;
    const ends: number[] = [];
    let turns = 0;
    const count = () => {
      turns += 1;
      if (ends.length < 8) setImmediate(count);
    };
    setImmediate(count);
    await Promise.all(Array.from({ length: 8 }, () => read(text).then(() => void ends.push(turns))));
    expect(new Set(ends).size).toBe(8);
  });
});

/** Returns the result of `work` and the number of event-loop turns that it took. */
async function turnsDuring<T>(work: () => Promise<T>): Promise<[result: T, turns: number]> {
  let turns = 0;
  let isOver = false;
  const count = () => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const result = await work();
  isOver = true;
  return [result, turns];
}

it('rows of a body are passed on in order, with yields to the event loop between slices', async () => {
  const rows = Array.from({ length: 200 }, (_, index) => index);
  const taken: number[] = [];
  const busy = (row: number) => {
    for (const end = performance.now() + 1; performance.now() < end; );
    taken.push(row);
  };
  const [, turns] = await turnsDuring(() => inSlices(rows, busy));
  expect(taken).toEqual(rows);
  expect(turns).toBeGreaterThan(5);
});
