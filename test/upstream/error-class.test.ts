import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { classOfError } from '../../src/upstream/error-class.ts';
import { toDlqEntry } from '../../src/upstream/wire.ts';
import { runs } from '../support/runs.ts';

/** Texts that describe the same error, grouped by the part in which they differ. */
const SAME: Readonly<Record<string, readonly string[]>> = {
  numbers: ['user 1 not found', 'user 73 not found', 'User 5,000 not found!', 'user 12 34 not found'],
  ids: [
    'order 6f1c2a7e-7b1d-4c39-9d55-2f3f1e0a9c11 is locked',
    'order 01HZX9V3K2 is locked',
    'order deadbeef is locked',
    `order ${'q'.repeat(60)} is locked`,
    'order msg_26hZCxZCuWyyTWPmSVBrNB1 is locked',
  ],
  quotations: ['no such column "total"', "no such column 'price of it'", 'no such column `a`', 'no such column "x, y"'],
  addresses: [
    'could not reach https://a.example/x?token=abc today',
    'could not reach ftp://b today',
    'could not reach jane.doe@example.org, today'.replace(',', ''),
  ],
  times: ['at 2026-01-01T00:00:00Z: timed out after 15s', 'at 2025-11-30T10:20:30.123+01:00: timed out after 900ms'],
  'irrelevant members': [
    '{"error":{"code":"locked","message":"Order 7 is locked"},"requestId":"abc"}',
    '{ "requestId": "xyz", "trace": ["a", "b"], "error" : { "code" : "locked", "message" : "Order \\"seven\\" is locked" } }',
  ],
  'text after the limit': [
    `${'it broke badly '.repeat(20)} because of this`,
    `${'it broke badly '.repeat(20)} because of that`,
    `${'it broke badly '.repeat(200)} because of that`,
  ],
  'binary data': ['\u0000\u0001\u0002', 'PNG\u0000 anything else'],
};

const OTHERS = [
  'user 1 not found',
  'order 7 is locked',
  'Internal Server Error',
  'connect ECONNREFUSED 10.0.0.1:443',
  'connect ETIMEDOUT 10.0.0.1:443',
  '{"error":{"message":"no such order"}}',
  '{"error":{"message":"no such user"}}',
  '{"error":"quota exceeded"}',
  '<html><title>502 Bad Gateway</title></html>',
  "can't connect to the user's host",
  "can't write to the user's disk",
  '',
];

describe('error classes', () => {
  it.each(Object.entries(SAME))('the error class does not depend on %s', (_, texts) => {
    expect(new Set(texts.map(classOfError)).size).toBe(1);
  });

  it('different errors have different error classes', () => {
    expect(new Set(OTHERS.map(classOfError)).size).toBe(OTHERS.length);
  });

  it('the error class is stable across processes, because it is part of stored names', () => {
    expect(classOfError('user 1 not found')).toMatchInlineSnapshot(`"c28xc2wcum0x"`);
  });

  it('the error class does not depend on ids, numbers and quoted parts of a text', () => {
    const id = fc.oneof(
      fc.uuid(),
      fc.nat().map(String),
      fc.stringMatching(/^[0-9a-f]{16,64}$/).filter(text => /\d/.test(text)),
      fc.stringMatching(/^(req|msg)_[A-Za-z]{0,8}\d[A-Za-z0-9]{0,20}$/),
      fc.stringMatching(/^[^"\\]{0,50}$/u).map(text => `"${text}"`),
      fc.nat().map(number => `https://host-${number}.example/${number}?token=abc`),
      fc.date({ noInvalidDate: true }).map(date => date.toISOString()),
    );
    const word = fc.constantFrom('user', 'order', 'failed', 'timeout', 'of', 'unknown', 'is', 'ECONNRESET');
    const place = fc.oneof({ weight: 3, arbitrary: word }, { weight: 1, arbitrary: fc.constant(undefined) });
    fc.assert(
      fc.property(fc.array(place, { minLength: 1, maxLength: 20 }), fc.infiniteStream(id), (template, ids) => {
        const text = () => template.map(each => each ?? (ids.next().value as string)).join(' ');
        expect(classOfError(text())).toBe(classOfError(text()));
      }),
      { numRuns: runs(60) },
    );
  });

  it('the error class of any text is a short hash, even for hostile texts of a million characters', () => {
    const hostile = [
      ...['"', "'", '`', '\\', '{', '[', '@', '://', '_', '-', '\n', '\u0000', '\ud800', '{"code"', '"error":"\\'],
    ].map(piece => piece.repeat(1_000_000 / piece.length));
    for (const text of [...hostile, ...hostile.map(each => `{"error":${each}`)]) {
      expect(classOfError(text)).toMatch(/^[0-9a-z]{1,13}$/);
    }
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 300 }), text => {
        expect(classOfError(text)).toMatch(/^[0-9a-z]{1,13}$/);
        expect(classOfError(text)).toBe(classOfError(text));
      }),
    );
  });
});

it('the error class of a dead letter is derived from any documented error field, and from no other field', () => {
  const classOf = (fields: object) => toDlqEntry({ dlqId: 'x', ...fields }, 0)?.errorClass;
  const text = 'order 7 is locked';
  const packed = Buffer.from(text).toString('base64');
  const all = [
    { responseBody: text },
    { responseBodyBase64: packed },
    { error: text },
    { responseBody: text, error: 'x' },
  ];
  expect(all.map(classOf)).toEqual(Array(all.length).fill(classOfError(text)));
  expect([{}, { responseBody: '' }, { responseBody: 7 }, { body: text }, { header: text }].map(classOf)).toEqual(
    Array(5).fill(undefined),
  );
});
