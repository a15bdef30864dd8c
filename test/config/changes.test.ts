import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { changesBetween } from '../../src/config/changes.ts';
import { parseConfig } from '../../src/config/load.ts';
import { identityOf } from '../../src/kit/identity.ts';
import { Secret } from '../../src/kit/secret.ts';

const account = { name: 'a', baseUrl: 'https://a.example', token: 'token-canary' };
const configWith = (sections: object) =>
  parseConfig(JSON.stringify({ accounts: [account], ...sections }), 'x.yaml', {}).config;

const above = (name: string, value = 0) => ({ name, when: { above: { metric: 'delivery_dlq_messages', value } } });
const hook = (name: string, url: string) => ({ name, webhook: { url } });
const like = (name: string, matches: string) => ({ name, match: { url: { matches } } });

const accountsOf = (names: readonly string[], more: object = {}) => ({
  accounts: names.map(name => ({ ...account, name, ...more })),
});

it.each<[object, object, string[]]>([
  [{}, {}, []],
  [{ server: { allowedHosts: ['a'] } }, { server: { allowedHosts: ['b'] } }, ['server changed']],
  [
    {},
    { log: { level: 'debug' }, heartbeat: { url: 'https://hc.example/canary', every: '1m' } },
    ['log changed', 'heartbeat changed'],
  ],
  [{}, { collect: { dlq: { every: '31s' } } }, ['accounts: a changed', 'collect changed']],
  [{ alerts: { rules: [above('A')] } }, { alerts: { rules: [above('A', 1)] } }, ['alerts changed']],
  [
    { alerts: { notifiers: [hook('h', 'https://h.example/canary/x')] } },
    { alerts: { notifiers: [hook('h', 'https://h.example/canary/y')] } },
    ['alerts changed'],
  ],
  [
    { tracing: { headers: { authorization: 'canary 1' } } },
    { tracing: { headers: { authorization: 'canary 2' } } },
    ['tracing changed'],
  ],
  [
    { autoCancel: { rules: [like('stays', 'a.*'), like('r', 'b.*')] } },
    { autoCancel: { rules: [like('stays', 'a.*'), like('r', 'c.*')] } },
    ['autoCancel changed'],
  ],
  [
    accountsOf(['a', 'b']),
    accountsOf(['b', 'c'], { labels: { team: 'x' } }),
    ['accounts: a removed, b changed, c added'],
  ],
])('changesBetween reports the sections and accounts that differ between %j and %j', (before, after, expected) => {
  const changes = changesBetween(configWith(before), configWith(after));
  expect(changes.sort()).toEqual([...expected].sort());
  expect(JSON.stringify(changes)).not.toContain('canary');
});

it('changesBetween lists ten changed accounts and counts the others', () => {
  const names = Array.from({ length: 1000 }, (_, index) => `b${index}`);
  const [line] = changesBetween(configWith({}), configWith(accountsOf(['a', ...names])));
  expect(line).toMatch(/^accounts: b0 added, .*b9 added and 990 more$/);
});

it('identityOf distinguishes settings by their secrets and patterns without exposing them', () => {
  const settings = (secret: string, pattern: string) => ({ token: new Secret(secret), match: new RegExp(pattern) });
  expect(identityOf(settings('a', 'b'))).toBe(identityOf(settings('a', 'b')));
  expect(identityOf(settings('a', 'b'))).not.toBe(identityOf(settings('c', 'b')));
  expect(identityOf(settings('a', 'b'))).not.toBe(identityOf(settings('a', 'c')));
  expect(identityOf([Number.POSITIVE_INFINITY])).not.toBe(identityOf([null]));
  expect(identityOf(settings('canary', 'b'))).toMatch(/^[0-9a-f]{64}$/);
});

it.each(['config.example.yaml', 'examples/auto-cancel.yaml', 'deploy/agent/config.yaml'])(
  'changesBetween reports no changes between two loads of %s',
  file => {
    const load = () => parseConfig(readFileSync(file, 'utf8'), file).config;
    expect(changesBetween(load(), load())).toEqual([]);
  },
);

it('identityOf detects every difference between plain settings and ignores the order of keys', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), (a, b) => {
      const same = JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));
      expect(identityOf(a) === identityOf(b)).toBe(same);
    }),
  );
});

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([k, v]) => [k, sorted(v)]),
  );
}
