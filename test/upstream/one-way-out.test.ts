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

/** Ways to send a request: functions of undici, methods of its dispatchers, and built-in fetch. */
const REQUEST = /import \{[^}]*\b(?:request|fetch|stream|pipeline)\b[^}]*\} from 'undici'|\.dispatch\(|\bfetch\(/;
const OWN_CLIENT = /from 'node:(?:net|tls|http2|https)'|\bhttps?\.(?:request|get)\(/;

/** The file that tests connections for `doctor`. */
const CONNECTION = 'upstream/connection.ts';

describe('outgoing requests', () => {
  it('outgoing requests are opened only for reads, cancels, token resets and alerts, and by doctor', () => {
    expect(pathsWith(REQUEST)).toEqual([
      CONNECTION,
      'upstream/post.ts',
      'upstream/rotator.ts',
      'upstream/send.ts',
      'upstream/writer.ts',
    ]);
  });

  it('outgoing requests of doctor change nothing and contain no token', () => {
    const text = sources.find(({ path }) => path === CONNECTION)?.text ?? '';
    expect([...text.matchAll(/\bmethod: '(\w+)'/g)].map(([, method]) => method)).toEqual(['GET']);
    expect(text).not.toMatch(/authorization|reveal/i);
  });

  it('all reads use one HTTP method, and each file that writes uses one HTTP method', () => {
    const METHOD = /\bmethod: '(?:POST|PUT|PATCH|DELETE)'/g;
    const methods = sources.flatMap(({ path, text }) =>
      path.startsWith('upstream/') ? [...text.matchAll(METHOD)].map(([found]) => `${path} ${found}`) : [],
    );
    expect(methods.sort()).toEqual([
      "upstream/post.ts method: 'POST'",
      "upstream/rotator.ts method: 'POST'",
      "upstream/writer.ts method: 'DELETE'",
    ]);
    expect(sources.find(({ path }) => path === 'upstream/send.ts')?.text).toContain("readonly method: 'GET';");
  });

  it('requests to receivers do not use code for requests to the service', () => {
    const text = sources.find(({ path }) => path === 'upstream/post.ts')?.text ?? '';
    const used = [...text.matchAll(/from '(\.[^']+)'/g)].map(([, path]) => path);
    expect(used.sort()).toEqual(['../kit/clock.ts', './dispatcher.ts', './send.ts']);
    expect(text).toContain('import { untilAborted }');
  });

  it('no code opens separate connections to the service', () => {
    expect(pathsWith(OWN_CLIENT).filter(path => !path.startsWith('http/'))).toEqual([
      // These only parse addresses and certificates.
      'config/replica-url.ts',
      'config/web-config.ts',
      // These configure and open connections to the database.
      'store/postgres-database.ts',
      'store/postgres-url.ts',
      CONNECTION,
      // This reads the trusted certificates.
      'upstream/dispatcher.ts',
      // This only parses addresses.
      'upstream/options.ts',
    ]);
  });

  it('writers for cancels are created only by accounts and by auto-cancel', () => {
    const makers = pathsWith(/\bcreateWriter\b/).filter(path => path !== 'upstream/writer.ts');
    expect(makers).toEqual(['agent/account-client.ts', 'agent/account.ts', 'auto-cancel/accounts.ts']);
  });
});
