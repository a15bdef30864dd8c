import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';

const sources = globSync('**/*.ts', { cwd: 'src' })
  .filter(path => !path.startsWith('emulator/'))
  .map(path => ({ path, text: readFileSync(join('src', path), 'utf8') }));

const pathsWith = (pattern: RegExp) =>
  sources
    .filter(({ text }) => pattern.test(text))
    .map(({ path }) => path)
    .sort();

/** Ways to open a request: functions of undici, methods of its dispatchers, and what Node brings. */
const REQUEST = /import \{[^}]*\b(?:request|fetch|stream|pipeline)\b[^}]*\} from 'undici'|\.dispatch\(|\bfetch\(/;
const OWN_CLIENT = /from 'node:(?:net|tls|http2|https)'|\bhttps?\.(?:request|get)\(/;

/** They try the way to a host, and whose the port is. */
const DOCTOR = ['cli/doctor/connection.ts', 'cli/doctor/ports.ts'];

describe('the one way out', () => {
  it('requests are opened in four places: to read, to cancel, to reset a token, and to tell of alerts; doctor tries the way', () => {
    expect(pathsWith(REQUEST)).toEqual([
      ...DOCTOR,
      'upstream/post.ts',
      'upstream/rotator.ts',
      'upstream/send.ts',
      'upstream/writer.ts',
    ]);
  });

  it('what doctor asks for by itself changes nothing, and holds no token', () => {
    for (const { path, text } of sources.filter(({ path }) => DOCTOR.includes(path))) {
      expect(
        [...text.matchAll(/\bmethod: '(\w+)'/g)].map(([, method]) => method).filter(each => each !== 'GET'),
      ).toEqual([]);
      expect(text, path).not.toMatch(/authorization|reveal/i);
    }
  });

  it('the way to read has one method, and the others one each', () => {
    const METHOD = /\bmethod: '(?:POST|PUT|PATCH|DELETE)'/g;
    const methods = sources.flatMap(({ path, text }) =>
      path.startsWith('upstream/') ? [...text.matchAll(METHOD)].map(([found]) => `${path} ${found}`) : [],
    );
    expect(methods.sort()).toEqual([
      "upstream/post.ts method: 'POST'",
      "upstream/rotator.ts method: 'POST'",
      "upstream/writer.ts method: 'DELETE'",
    ]);
    expect(sources.find(({ path }) => path === 'upstream/call.ts')?.text).toContain("readonly method: 'GET';");
  });

  it('requests to receivers know nothing of the service', () => {
    const text = sources.find(({ path }) => path === 'upstream/post.ts')?.text ?? '';
    const used = [...text.matchAll(/from '(\.[^']+)'/g)].map(([, path]) => path);
    expect(used.sort()).toEqual(['../kit/clock.ts', './dispatcher.ts', './send.ts']);
    expect(text).toContain('import { untilAborted }');
  });

  it('nobody opens a connection to the service by hand', () => {
    expect(pathsWith(OWN_CLIENT).filter(path => !path.startsWith('http/'))).toEqual([
      // Two read addresses and certificates.
      'agent/replica-url.ts',
      ...DOCTOR,
      'config/web-tls.ts',
      // Connections to the database, so that none of them outlasts its end.
      'store/postgres-database.ts',
      'store/postgres-url.ts',
      'upstream/dispatcher.ts',
    ]);
  });

  it('only an open account makes a writer', () => {
    const makers = pathsWith(/\bcreateWriter\b/).filter(path => path !== 'upstream/writer.ts');
    expect(makers).toEqual(['agent/account-client.ts', 'agent/account.ts', 'auto-cancel/accounts.ts']);
  });
});
