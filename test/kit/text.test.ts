import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { bareAddress, boundText, parseUrl, printableJson } from '../../src/kit/text.ts';
import { liveBytes } from '../support/live-bytes.ts';
import { runs } from '../support/runs.ts';

describe('a URL without its secrets', () => {
  it.each([
    ['https://api.example.com/jobs/a?token=s#f', 'https://api.example.com/jobs/a?…'],
    ['https://api.example.com/jobs/a#token=s', 'https://api.example.com/jobs/a?…'],
    ['https://user:pw@api.example.com:8443/a', 'https://api.example.com:8443/a'],
    ['https:user:pw@h?token=s', 'https://h/?…'],
    [' https://user:pw@h/p?token=s', 'https://h/p?…'],
    ['http:\\\\user:pw@h\\p?token=s', 'http://h/p?…'],
    ['HTTPS:/user:pw@h/p', 'https://h/p'],
    ['ht\ntps://user:pw@h/p?token=s', 'https://h/p?…'],
    ['https://user:p@w@h/p', 'https://h/p'],
    ['https:https://user:pw@h/p', 'https://https/…'],
    ['https://h/p%3Ftoken=s', 'https://h/…'],
    ['h/p?token=s', '…'],
    ['user:pw@h/p', '…'],
    ['//user:pw@h/p', '…'],
    ['ftp://user:pw@h/p', '…'],
    ['https://', '…'],
    ['https://user:pw@', '…'],
    ['https://user:pw@h:99999/p', '…'],
    ['data:text/plain,secret', '…'],
    ['my-topic', 'my-topic'],
    ['', ''],
  ])('the URL %j is shown as %j', (text, shown) => expect(bareAddress(text)).toBe(shown));

  it('a shown URL contains no user, password, query or fragment, however the URL is written', () => {
    const odd = (...parts: string[]) => fc.constantFrom(...parts);
    const lead = odd('', ' ', '\t', '\0', '\n', '\u00a0', '\ufeff', '%20');
    const scheme = odd('https', 'http', 'HTTP', 'hTTps', 'htt\tps', 'https:https', 'ftp', 'wss', 'blob:https', '', 'x');
    const colon = odd('://', ':', ':/', ':\\\\', ':/\\', ':////', '//', '\\\\', '', ': //', ':\t//', '\uff1a//');
    const user = odd(
      '',
      'SECRET@',
      'u:SECRET@',
      'SECRET:p@',
      'u:SECRET@@',
      'u%40SECRET@',
      'u:SEC\tRET@',
      '@SECRET@',
      ':SECRET@',
    );
    const host = odd(
      'h',
      'h.example',
      '[::1]',
      '[::1',
      '127.1',
      '1.2.3.4.5',
      'h:99999',
      'h:',
      '',
      'h h',
      'ex%00ample',
      'xn--a',
      '-',
    );
    const path = odd('', '/', '/p', '\\p', '/p;v', '/%', '/p p', '/p\n');
    const query = odd(
      '',
      '?token=SECRET',
      '??SECRET',
      '?a#SECRET',
      '#SECRET',
      '#?SECRET',
      '?SECRET#',
      '\t?SECRET',
      '?SEC\nRET',
    );
    fc.assert(
      fc.property(fc.tuple(lead, scheme, colon, user, host, path, query), parts => {
        const shown = bareAddress(parts.join(''));
        expect(shown.replace(/[\t\n]/g, '')).not.toContain('SECRET');
        expect(shown).not.toContain('@');
      }),
      { numRuns: runs(8000) },
    );
  });

  it('a shown URL never contains the text after a ? or before an @, regardless of the surrounding text', () => {
    const secret = fc.stringMatching(/^[A-Z]{6}$/);
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary', maxLength: 12 }),
        secret,
        fc.string({ maxLength: 12 }),
        (before, s, after) => {
          expect(bareAddress(`${before}?${s}${after}`)).not.toContain(s);
          expect(bareAddress(`https://${s}@${after}`).toUpperCase()).not.toContain(s);
        },
      ),
      { numRuns: runs(5000) },
    );
  });
});

describe('parseUrl', () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  /** Returns a name of `length` different Chinese characters, of three bytes each. */
  const chinese = (length: number, first = 0) =>
    String.fromCodePoint(...Array.from({ length }, (_, index) => 0x4e00 + first + index));

  it.each([
    'https://HOST/',
    'https://HOST',
    'HTTP://HOST:8443?q',
    'https:HOST/',
    ' https:\\\\HOST\\p',
    'https:////HOST#f',
    'ht\ntps:/\t/\r/HOST/',
    'https://user:p@ss@HOST/',
    'ftp://HOST/',
  ])('rejects the URL %j with an overlong host before it is parsed', written => {
    const parse = vi.spyOn(URL, 'parse');
    for (const host of [chinese(88), encodeURIComponent(chinese(29)), 'a'.repeat(270), `${'a.'.repeat(130)}é`]) {
      const url = written.replace('HOST', host);
      expect([parseUrl(url), bareAddress(url), parse.mock.calls.length]).toEqual([null, '…', 0]);
      const tabbed = written.replace('HOST', [...host].join('\t'));
      expect([parseUrl(tabbed), parse.mock.calls.length]).toEqual([null, 0]);
    }
  });

  it('never passes a host of more than 260 bytes to URL.parse, however the URL is written', () => {
    const odd = (...parts: string[]) => fc.constantFrom(...parts);
    const parts = fc.tuple(
      odd('', ' ', '\t', '\0', '\n'),
      odd('https', 'http', 'HTTP', 'ht\ntp', 'ftp', 'ws', 'file', 'x', ''),
      odd('://', ':', ':/', ':\\\\', ':/\\', ':/\t/', ':\n', '\t://', '//', ':////'),
      odd('', 'u@', 'u:p@', '@', 'u@@', 'u\t@', 'u:\n@', `${'a'.repeat(300)}@`, '%40'),
      odd('', '[', 'a.', '\t', '-', '@'),
      odd('', ':8443', '/', '?', '#', '\\', '/p@h', '\n/', '.', '@'),
    );
    fc.assert(
      fc.property(parts, ([lead, scheme, colon, user, before, after]) => {
        const url = `${lead}${scheme}${colon}${user}${before}${chinese(300)}${after}`;
        const parsed = URL.parse(url);
        const isInHost = decodeURIComponent(parsed?.hostname ?? '').length > 260;
        if (isInHost) expect(parseUrl(url)).toBeNull();
      }),
      { numRuns: runs(4000) },
    );
  });

  it.each([
    ['the longest host name', `https://${['a', 'b', 'c'].map(x => x.repeat(63)).join('.')}.${'d'.repeat(61)}:65535/`],
    ['an international host', `https://${chinese(20)}.${chinese(20, 30)}.example/`],
    ['a long user', `https://user:${'p'.repeat(1000)}@example.com/`],
    ['a long path and query', `https://example.com/${chinese(1000)}?q=@${'q'.repeat(1000)}`],
    ['an IPv6 address', 'https://[2001:db8::1]:8080/'],
    ['the name of a URL group', 'my-topic'],
  ])('parses %s like URL.parse', (_what, url) => expect(parseUrl(url)?.href).toBe(URL.parse(url)?.href));

  it('parses consecutive equal URLs once', () => {
    const parse = vi.spyOn(URL, 'parse');
    const hosts = ['a', 'a', 'a', 'b', 'a'].map(name => parseUrl(`https://${name}.example/once`)?.host);
    expect(hosts).toEqual(['a', 'a', 'a', 'b', 'a'].map(name => `${name}.example`));
    expect(parse).toHaveBeenCalledTimes(3);
  });
});

it('boundText keeps only the returned part of a long text in memory', () => {
  const before = liveBytes();
  const texts = Array.from({ length: 20 }, (_, index) => boundText(`${index} `.padEnd(4_000_000, 'x'), 512));
  expect(liveBytes() - before).toBeLessThan(4_000_000);
  expect(new Set(texts).size).toBe(20);
});

it('printableJson serializes control and formatting characters as escapes', () => {
  const value = { text: 'a\u001b[2J\u009b2J\u202e\u2066\u2028\u007f\u{e0001}\n\ud800 漢 😀' };
  for (const indent of [undefined, 2]) {
    const json = printableJson(value, indent);
    expect(json).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
    expect(json.split('\n')).toHaveLength(indent === undefined ? 1 : 3);
    expect(json).toContain('漢 😀');
    expect(JSON.parse(json)).toEqual(value);
  }
});
