import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { redacted } from '../../src/kit/redaction.ts';
import { runs } from '../support/runs.ts';

const TOKEN = 'qX7-vR2_mK9pL4sT8wZ1';
const PASSWORD = 'correct horse/battery+staple';
const base64 = (text: string) => Buffer.from(text).toString('base64');

describe('redacted', () => {
  it.each([
    ['token expired', 'token expired'],
    ['unauthorized: invalid token: expired', 'unauthorized: invalid token: expired'],
    ['missing bearer token', 'missing bearer token'],
    ['Basic authentication required.', 'Basic authentication required.'],
    ['count must be at most 100', 'count must be at most 100'],
    [
      'quota of 500000 requests exceeded; see https://example.com/pricing',
      'quota of 500000 requests exceeded; see https://example.com/pricing',
    ],
    ['line one\r\n\tline two', 'line one line two'],
    ['\u001b[31mred\u001b[0m \u001b]8;;https://x\u0007link', 'red link'],
    ['a\u202eb\u0007c\u200bd', 'a\ufffdb\ufffdc\ufffdd'],
    ['lone \ud800 surrogate', 'lone \ufffd surrogate'],
  ])('redaction shows the error text %j as %j', (text, shown) => expect(redacted(text, [TOKEN], 200)).toBe(shown));

  it.each([
    `the token ${TOKEN} is unknown`,
    `starts with ${TOKEN.slice(0, 12)}`,
    `ends with ${TOKEN.slice(-9)}`,
    `in pieces ${TOKEN.slice(0, 7)} \n ${TOKEN.slice(7)}`,
    `hidden ${TOKEN.slice(0, 5)}\u200b${TOKEN.slice(5)}`,
    `coloured ${TOKEN.slice(0, 5)}\u001b[1m${TOKEN.slice(5)}`,
    `percent-encoded ${[...TOKEN].map(char => `%${char.charCodeAt(0).toString(16)}`).join('')}`,
    `escaped ${[...TOKEN].map(char => `\\u00${char.charCodeAt(0).toString(16)}`).join('')}`,
    `percent-encoded twice ${[...TOKEN].map(char => `%25${char.charCodeAt(0).toString(16)}`).join('')}`,
    `escaped twice ${[...TOKEN].map(char => `\\\\u00${char.charCodeAt(0).toString(16)}`).join('')}`,
    `in HTML ${[...TOKEN].map(char => `&#${char.charCodeAt(0)};`).join('')}`,
    `in hexadecimal HTML ${[...TOKEN].map(char => `&#x${char.charCodeAt(0).toString(16)};`).join('')}`,
    `as base64 ${base64(TOKEN)}`,
    `as a login ${base64(`user:${TOKEN}`)}`,
    `as another ${base64(`me@example.com:${TOKEN}`).replaceAll('+', '-').replaceAll('/', '_')}`,
  ])('redaction removes a known secret from %j', text => {
    const shown = redacted(text, [TOKEN], 200);
    expect(shown).toContain('<secret>');
    for (let at = 0; at + 8 <= TOKEN.length; at += 1) expect(shown).not.toContain(TOKEN.slice(at, at + 8));
    expect(shown).not.toMatch(/[0-9a-f]{2};?(?:%|%25|\\u00|&#x?)[0-9a-f]{2}|[\w+/]{10,}$/);
  });

  it('redaction removes every encoding of a known secret that contains spaces and symbols', () => {
    const encoded = encodeURIComponent(PASSWORD);
    const forms = [PASSWORD, encoded, encodeURIComponent(encoded), JSON.stringify(PASSWORD), base64(PASSWORD)];
    for (const form of forms) expect(redacted(`no: ${form}`, [PASSWORD], 200)).toMatch(/^no: ["']?<secret>["'=]*$/);
  });

  it('redaction removes the path, query and password of a secret URL and keeps its host', () => {
    const secret = 'https://hooks.example.com/services/T0AB/B0CD/xyzxyzxyz?key=abcabcabc';
    expect(redacted('no services/T0AB/B0CD/xyzxyzxyz at hooks.example.com', [secret], 200)).toBe(
      'no <secret> at hooks.example.com',
    );
    expect(redacted('abcabcabc', ['postgres://me:abcabcabc@db/x'], 200)).toBe('<secret>');
  });

  it('redaction removes the percent-decoded password of a URL', () => {
    expect(redacted('not p@s/w:d!', ['http://me:p%40s%2Fw%3Ad!@proxy'], 200)).toBe('not <secret>');
  });

  it('redaction removes the string values of a token that is base64-encoded JSON, and keeps its keys', () => {
    const token = base64(JSON.stringify({ UserID: 'user-number-one', Password: 'correct-horse', version: 1 }));
    expect(redacted('the Password correct-horse is not of the UserID user-number-one', [token], 200)).toBe(
      'the Password <secret> is not of the UserID <secret>',
    );
  });

  it.each([
    ['Bearer abcd1', 'Bearer <secret>'],
    ['jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sig_-x', 'jwt <secret>'],
    ['https://user:pw@h/p?token=abc&a=1', 'https://<secret>h/p?token=<secret>&a=<secret>'],
    ['password=hunter2; next', 'password=<secret>; next'],
    ['password: hunter', 'password: <secret>'],
    ['{"accessToken":"two words","x":1}', '{"accessToken":"<secret>","x":1}'],
    ['{\\"api_key\\": \\"abc\\"}', '{\\"api_key\\": \\"<secret>"}'],
    ['token: a1b2', 'token: <secret>'],
    ['id 01234567-89ab-cdef-0123-456789abcdef', 'id <secret>'],
  ])('redaction removes the credential in %j', (text, shown) => expect(redacted(text, [], 200)).toBe(shown));

  it('redaction removes a secret completely even if it crosses the length limit', () => {
    for (let before = 150; before <= 200; before += 1) {
      const shown = redacted(`${'x '.repeat(before / 2)}${TOKEN} and more ${'y '.repeat(50)}`, [TOKEN], 200);
      expect(shown.length).toBeLessThanOrEqual(200);
      expect(shown).toMatch(/…$/);
      expect(shown).not.toContain(TOKEN.slice(0, 4));
    }
  });

  it.each([
    ['plain', TOKEN],
    ['in base64', base64(TOKEN)],
    ['percent-encoded', [...TOKEN].map(char => `%${char.charCodeAt(0).toString(16)}`).join('')],
    ['in HTML', [...TOKEN].map(char => `&#x${char.charCodeAt(0).toString(16)};`).join('')],
    ['unknown', 'k9'.repeat(30)],
  ])('redaction shows no part of a secret that crosses the end of the examined text: %s', (_form, secret) => {
    // The prefix is redacted, so that the end of the examined text fits into the output.
    for (let before = 900; before <= 1030; before += 1) {
      const text = `password=${'p'.repeat(before - 12)} ~ ${secret}`.padEnd(1100, ' y');
      const shown = redacted(text, [TOKEN], 200);
      expect(shown).toMatch(/^(password=)?<secret>( ~)?( <secret>)?[ y…]*$/);
    }
  });

  it('redaction of 100,000 repetitions of a hostile text takes less than a second', () => {
    for (const part of [
      'token',
      'password:',
      'a-',
      'eyJ',
      '?a=',
      '%41',
      '%2525',
      '\\',
      '\\u0041',
      '&#',
      'Bearer ',
      '://',
      '"',
      '\u001b[',
    ]) {
      const start = performance.now();
      redacted(part.repeat(100_000), [TOKEN, PASSWORD], 200);
      expect(performance.now() - start).toBeLessThan(1000);
    }
  });

  it('redaction returns one printable line for any text, within the length limit and without the secret', () => {
    const piece = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 30 }),
      fc.constantFrom(TOKEN, encodeURIComponent(TOKEN), base64(TOKEN), ' ', '\n', '\u001b[1m', '='),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 40 }), fc.integer({ min: 10, max: 300 }), (pieces, limit) => {
        const shown = redacted(pieces.join(''), [TOKEN], limit);
        expect(shown.length).toBeLessThanOrEqual(limit);
        expect(shown).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u);
        expect(shown).not.toContain(TOKEN);
        expect(shown).not.toContain(base64(TOKEN).slice(0, 20));
      }),
      { numRuns: runs(1000) },
    );
  });
});
