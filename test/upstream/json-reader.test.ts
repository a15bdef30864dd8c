import { StringDecoder } from 'node:string_decoder';
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { readJson } from '../../src/upstream/body.ts';
import { createJsonReader, JsonFault, type RowsOf } from '../../src/upstream/json-reader.ts';
import { runs } from '../support/runs.ts';

const keepAll: RowsOf = () => (element, put) => put(element);

/** What is read of a text that comes in pieces of these lengths, the last length again and again. */
function read(bytes: Buffer, lengths: readonly number[] = [bytes.length], rowsOf = keepAll): unknown {
  const reader = createJsonReader(rowsOf);
  const decoder = new StringDecoder();
  const readOn = (text: string) => {
    for (let at = 0; at < text.length; ) at = reader.read(text, at);
  };
  const left = [...lengths];
  for (let from = 0; from < bytes.length; ) {
    const piece = bytes.subarray(from, from + Math.max(1, (left.length > 1 ? left.shift() : left[0]) ?? 1));
    readOn(decoder.write(piece));
    from += piece.length;
  }
  readOn(decoder.end());
  return reader.end();
}

/** The value, or that there is none. */
function attempt(work: () => unknown): { value: unknown } | 'invalid' {
  try {
    // A class of lists is no difference in what was said.
    return { value: structuredCloneOf(work()) };
  } catch (error) {
    if (error instanceof SyntaxError || (error instanceof JsonFault && error.kind === 'invalid')) return 'invalid';
    throw error;
  }
}

/** With nothing but plain objects and lists, and every own name in its place. */
function structuredCloneOf(value: unknown): unknown {
  if (Array.isArray(value)) return Array.from(value, structuredCloneOf);
  if (typeof value !== 'object' || value === null) return value;
  return new Map(Object.entries(value).map(([name, member]) => [name, structuredCloneOf(member)]));
}

function same(bytes: Buffer, lengths?: readonly number[]): void {
  expect(attempt(() => read(bytes, lengths))).toEqual(attempt(() => JSON.parse(bytes.toString('utf8'))));
}

const blank = fc.stringMatching(/^[ \t\r\n]{0,3}$/);
/** Not a lone backslash: where V8 has met that name, JSON.parse takes any that begins with an escape for it (Node.js 24.21). */
const names = fc
  .oneof(
    fc.constantFrom('messages', 'cursor', 'error', '__proto__', '7', 'a"b', 'a\\'),
    fc.string(),
    fc.string({ unit: 'binary' }),
  )
  .filter(name => name !== '\\');
const scalar = fc.oneof(
  fc.constantFrom(null, true, false, '', '[', ']', '{"a":[', '\\', '"', '\u2028', '👩‍👧', '\ud800'),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.string({ unit: 'grapheme' }),
);

/** JSON texts with blanks wherever they may be, names twice, and every way to write a character. */
const { text } = fc.letrec<{ text: string }>(tie => {
  const string = fc
    .tuple(names, fc.boolean())
    .map(([value, isEscaped]) =>
      isEscaped
        ? `"${Array.from({ length: value.length }, (_, at) => `\\u${value.charCodeAt(at).toString(16).padStart(4, '0')}`).join('')}"`
        : JSON.stringify(value),
    );
  const padded = (inner: fc.Arbitrary<string>) => fc.tuple(blank, inner, blank).map(parts => parts.join(''));
  const member = fc.tuple(padded(string), tie('text')).map(([name, value]) => `${name}:${value}`);
  return {
    text: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      padded(
        fc.oneof(
          scalar.map(value => JSON.stringify(value)),
          string,
        ),
      ),
      padded(fc.array(tie('text'), { maxLength: 6 }).map(all => `[${all.join(',')}]`)),
      padded(fc.array(member, { maxLength: 6 }).map(all => `{${all.join(',')}}`)),
    ),
  };
});
const lengths = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 20 });

describe('the reader of JSON in pieces', () => {
  it('says of every text what JSON.parse says, however it is cut', () => {
    fc.assert(
      fc.property(text, lengths, (valid, cuts) => {
        expect(() => JSON.parse(valid)).not.toThrow();
        same(Buffer.from(valid), cuts);
      }),
      { numRuns: runs(2000) },
    );
  });

  it('refuses what JSON.parse refuses: texts that were cut off, spoilt, or are of any bytes', () => {
    const spoilt = fc
      .tuple(text, fc.nat(), fc.nat(3), fc.oneof(fc.constantFrom(...',:[]{}"\\ 0x\0'), fc.string({ maxLength: 2 })))
      .map(([valid, at, gone, added]) => {
        const place = at % (valid.length + 1);
        return Buffer.from(valid.slice(0, place) + added + valid.slice(place + gone));
      });
    const cutOff = fc.tuple(text, fc.nat()).map(([valid, at]) => {
      const bytes = Buffer.from(valid);
      return bytes.subarray(0, at % (bytes.length + 1));
    });
    const tokens = fc
      .array(fc.constantFrom('[', ']', '{', '}', ',', ':', '"', '"a"', '1', 'null', ' ', '\\', '"a":[', '\ufeff'))
      .map(all => Buffer.from(all.join('')));
    const bytes = fc
      .uint8Array({ maxLength: 12 })
      .map(some => Buffer.concat([Buffer.from('["'), some, Buffer.from('"]')]));
    fc.assert(
      fc.property(fc.oneof(spoilt, cutOff, tokens, bytes), lengths, (any, cuts) => same(any, cuts)),
      { numRuns: runs(5000) },
    );
  });

  it('parses a long list some elements at a time', () => {
    const list = Array.from({ length: 2345 }, (_, index) => ({ id: `${index}"]`, at: [index, { deep: [] }] }));
    for (const cuts of [[1], [7, 70_000], [1_000_000]]) {
      same(Buffer.from(JSON.stringify(list)), cuts);
      same(Buffer.from(JSON.stringify({ cursor: '1', messages: list, rest: [1] })), cuts);
    }
    same(Buffer.from(`[${JSON.stringify(list).slice(1, -1)},]`));
    same(Buffer.from(`[${'1,'.repeat(500)}]`));
    same(Buffer.from(`[${'1,'.repeat(500)},1]`));
    same(Buffer.from(`[${'1,'.repeat(500)}1}`));
  });

  it('says the same of lists of objects, whatever looks like the begin of one', () => {
    const looks = fc.constantFrom('', '},{"', '},{\\"', '"},{"', '\\', '},{', '[{},{"a":1}]');
    const object = fc.oneof(
      fc.record({ id: looks, body: looks, more: fc.option(fc.array(fc.record({ at: looks }), { maxLength: 3 })) }),
      fc.dictionary(looks, looks, { maxKeys: 2 }),
      looks,
    );
    const list = fc.array(object, { maxLength: 8 }).map(all => JSON.stringify(all));
    const spoilt = fc
      .tuple(list, fc.nat(), fc.nat(2), fc.constantFrom('', ...',]}{"\\', '},{"', '},{""'))
      .map(([valid, at, gone, added]) => {
        const place = at % (valid.length + 1);
        return valid.slice(0, place) + added + valid.slice(place + gone);
      });
    const cuts = fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(fc.oneof(list, spoilt), fc.boolean(), cuts, (rows, isWrapped, lengths) => {
        same(Buffer.from(isWrapped ? `{"cursor":"1","messages":${rows},"rest":[{},{"a":0}]}` : rows), lengths);
      }),
      { numRuns: runs(3000) },
    );
  });

  it('takes at most 500 elements at a time, or some that are 64 KiB long', () => {
    let taken: number[] = [];
    const rowsOf: RowsOf = () => (element, put) => {
      taken[taken.length - 1] = (taken.at(-1) ?? 0) + 1;
      put(element);
    };
    const row = { id: 'x'.repeat(100) };
    for (const element of [{ a: 0 }, row, { body: 'x'.repeat(40_000), rows: [row, row] }]) {
      taken = [];
      const text = JSON.stringify(Array.from({ length: 3000 }, () => element));
      const reader = createJsonReader(rowsOf);
      for (let at = 0; at < text.length; ) {
        taken.push(0);
        at = reader.read(text, at);
      }
      expect(reader.end()).toHaveLength(3000);
      expect(Math.max(...taken)).toBeLessThanOrEqual(500);
      expect(Math.max(...taken) * (JSON.stringify(element).length + 1)).toBeLessThan(64 * 1024 + 40_200);
    }
  });

  it('parses little more than there is, of thousands of little lists', () => {
    const parse = vi.spyOn(JSON, 'parse');
    const text = `{${'"a":[{"b":1},{"c":2}],'.repeat(10_000)}"d":1}`;
    expect(read(Buffer.from(text))).toEqual({ a: [{ b: 1 }, { c: 2 }], d: 1 });
    const parsed = parse.mock.calls.reduce((sum, [each]) => sum + each.length, 0);
    parse.mockRestore();
    expect(parsed).toBeLessThan(text.length * 5);
  });

  it('reads long texts whole, wherever their escapes are and the pieces end', () => {
    const part = fc.tuple(
      fc.constantFrom('', '"', '\\', '\n', '\\"', '[{'),
      fc.nat(5000).map(length => 'x'.repeat(length)),
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 6 }), fc.integer({ min: 50, max: 9000 }), (parts, cut) => {
        same(Buffer.from(JSON.stringify({ messages: [{ body: parts.flat().join('') }, 1] })), [cut]);
      }),
      { numRuns: runs(500) },
    );
  });

  it('makes rows at once, of the lists that are asked for, and checks the others', () => {
    const rowsOf: RowsOf = name =>
      name === 'messages' ? (element, put) => put((element as { a: number }).a) : undefined;
    const of = (value: string) => read(Buffer.from(value), [3], rowsOf);
    expect(of('{"messages":[{"a":1},{"a":2}],"rest":[1,2],"x":{"messages":[0]}}')).toEqual({
      messages: [1, 2],
      rest: [],
      x: { messages: [0] },
    });
    expect(of('{"messages":[{"a":1}],"messages":[{"a":2}]}')).toEqual({ messages: [2] });
    expect(() => of('{"rest":[1 2]}')).toThrow(JsonFault);
  });

  it.each([
    ['too deep', `{"messages":${'['.repeat(300)}`],
    ['too many elements', `[${'1,'.repeat(2_000_001)}1]`],
    ['too many values in one element', `[{${Array.from({ length: 60_000 }, (_, index) => `"${index}":0`)}}]`],
    ['too many members', `{"messages":[],${Array.from({ length: 60_000 }, (_, index) => `"${index}":0`)}}`],
    ['too large an element', `["${'x'.repeat(33 * 1024 * 1024)}"]`],
    ['too large a text', `"${'x'.repeat(33 * 1024 * 1024)}"`],
  ])('does not read what has %s', (_what, hostile) => {
    expect(() => read(Buffer.from(hostile), [65_536], () => undefined)).toThrow(
      expect.objectContaining({ kind: 'many' }),
    );
  });
});

describe('a body', () => {
  async function* piecesOf(...pieces: readonly (string | Buffer)[]) {
    for (const piece of pieces) yield Buffer.from(piece);
  }
  const long = JSON.stringify(Array.from({ length: 20_000 }, (_, index) => ({ flowControlKey: `key-${index}` })));

  it('may begin with a byte order mark, in however many pieces, and is whole', async () => {
    const mark = Buffer.from('\ufeff');
    for (const body of ['[1]', long]) {
      const pieces = piecesOf(mark.subarray(0, 1), mark.subarray(1), body);
      expect(structuredCloneOf(await readJson(pieces, keepAll))).toEqual(structuredCloneOf(JSON.parse(body)));
      await expect(readJson(piecesOf(mark, mark, body), keepAll)).rejects.toThrow('not JSON');
      await expect(readJson(piecesOf(body.slice(0, -1)), keepAll)).rejects.toThrow('not JSON');
    }
    await expect(readJson(piecesOf(''), keepAll)).rejects.toThrow('not JSON');
  });

  it('is the text that its bytes are, wherever its pieces end', async () => {
    const rows = JSON.stringify(
      Array.from({ length: 9000 }, (_, index) => ({ id: 'é👩‍👧\u{10ffff}x'.slice(index % 5), at: index })),
    );
    const bytes = Buffer.from(rows);
    // Bytes that are no character, and one that was begun before an ASCII one.
    const spoilt = Buffer.concat([bytes.subarray(0, -2), Buffer.from([0xff, 0xe2, 0x82]), bytes.subarray(-2)]);
    for (const body of [bytes, spoilt]) {
      for (const length of [1009, 4096]) {
        const pieces = Array.from({ length: Math.ceil(body.length / length) }, (_, index) =>
          body.subarray(index * length, (index + 1) * length),
        );
        const read = attempt(() => JSON.parse(body.toString()));
        const found = await readJson(piecesOf(...pieces), keepAll).then(
          value => ({ value: structuredCloneOf(value) }),
          () => 'invalid',
        );
        expect(found).toEqual(read);
      }
    }
  });

  it('lets everything else have a turn while it is read', async () => {
    let turns = 0;
    let isOver = false;
    const count = () => {
      turns += 1;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    const many = `[${Array.from({ length: 30 }, () => long.slice(1, -1))}]`;
    expect(await readJson(piecesOf(many), keepAll)).toHaveLength(600_000);
    isOver = true;
    expect(turns).toBeGreaterThan(5);
  });
});
