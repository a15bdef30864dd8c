import { expect, it } from 'vitest';
import { formatError, parseConfig } from '../../src/config/load.ts';

const load = (management: string, env: Readonly<Record<string, string>> = {}) =>
  parseConfig(
    `accounts:\n  - { name: a, baseUrl: http://127.0.0.1:1, token: { env: TOKEN },\n      management: ${management} }\nserver: { public: true }\n`,
    'x.yaml',
    { TOKEN: 't', ...env },
  );

const warningsOf = (...args: Parameters<typeof load>) => load(...args).warnings.map(formatError);

it('the management login is optional, and a missing password causes only a warning', () => {
  expect(load('null').config.accounts[0]?.management).toBeNull();
  const management = '{ baseUrl: http://127.0.0.1:2, username: u@example.com, password: { env: PASSWORD } }';
  expect(warningsOf(management, { PASSWORD: 'p' })).toEqual([]);
  expect(warningsOf(management)).toEqual([
    'x.yaml:3:85: accounts[0].management.password: the environment variable PASSWORD is not set: rotate-token will need it',
  ]);
  expect(warningsOf(management.replace('{ env: PASSWORD }', '{ file: /nonexistent/password }'))).toEqual([
    'x.yaml:3:85: accounts[0].management.password: /nonexistent/password does not exist: rotate-token will need it',
  ]);
});

it('a management password in the file is redacted, with a warning', () => {
  const management = '{ baseUrl: http://127.0.0.1:2, username: u, password: password-canary }';
  expect(warningsOf(management)).toEqual([
    'x.yaml:3:73: accounts[0].management.password: the password is written in this file; { env: NAME } or { file: PATH } keep it out',
  ]);
  expect(JSON.stringify(load(management))).not.toContain('canary');
});

it('errors in the management section contain their position and the allowed keys', () => {
  expect(() => load('{ baseUrl: ftp://x, username: "a:b", pasword: canary }')).toThrow(
    [
      'x.yaml:3:19: accounts[0].management.password: is required: must be { env: NAME }, { file: PATH } or the secret itself as text',
      'x.yaml:3:30: accounts[0].management.baseUrl: must be an http or https address without user, query or fragment',
      'x.yaml:3:49: accounts[0].management.username: must be visible ASCII characters, without spaces and colons',
      'x.yaml:3:56: accounts[0].management.pasword: unknown key; allowed here: baseUrl, username, password',
    ].join('\n'),
  );
});
