import { expect, it } from 'vitest';
import { parseConfig } from '../../src/config/load.ts';
import { replicaUrlOf } from '../../src/config/replica-url.ts';

const ENV = { TOKEN: 'x', HERE: ' http://10.0.0.7:10922/ ', NOWHERE: 'ftp://x' };
const load = (server: object) =>
  parseConfig(
    JSON.stringify({ accounts: [{ name: 'a', baseUrl: 'https://x.example', token: { env: 'TOKEN' } }], server }),
    'x.yaml',
    ENV,
  ).config.server;
const urlOf = (server: object) => replicaUrlOf(load(server), ENV, 'pod-1');

it.each([
  [{}, 'http://pod-1:10922'],
  [{ listen: '[::]:80' }, 'http://pod-1:80'],
  [{ listen: '127.0.0.1:81' }, 'http://127.0.0.1:81'],
  [{ listen: '[::1]:82' }, 'http://[::1]:82'],
  [{ replicaUrl: 'https://a.example/dw/' }, 'https://a.example/dw'],
  [{ replicaUrl: { env: 'HERE' } }, 'http://10.0.0.7:10922'],
])('the replica URL with server settings %j is %s', (server, url) => expect(urlOf(server)).toBe(url));

it.each([
  [{ replicaUrl: 'a.example:80' }, /server.replicaUrl: must be an http or https address/],
  [{ replicaUrl: 'https://u:p@a.example' }, /must be an http or https address/],
  [{ replicaUrl: { env: 'MISSING' } }, /server.replicaUrl: the environment variable MISSING is not set/],
  [{ replicaUrl: { env: 'NOWHERE' } }, /NOWHERE must be an http or https address/],
])('the server settings %j are rejected', (server, message) => expect(() => load(server)).toThrow(message));
