import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { changesBetween, listChanges } from '../../src/app/changes.ts';
import { identityOf } from '../../src/app/identity.ts';
import { parseConfig } from '../../src/config/load.ts';
import { Secret } from '../../src/kit/secret.ts';

const account = { name: 'a', baseUrl: 'https://a.example', token: 'token-canary' };
const configWith = (sections: object) =>
  parseConfig(JSON.stringify({ accounts: [account], ...sections }), 'x.yaml', {}).config;

const above = (name: string, value = 0) => ({ name, when: { above: { metric: 'delivery_dlq_messages', value } } });
const hook = (name: string, url: string) => ({ name, webhook: { url } });
const stuck = (name: string, prefix: string) => ({ name, match: { url: { prefix: [prefix] } }, grace: '0s' });
const like = (name: string, matches: string) => ({ name, match: { url: { matches } } });

it.each<[object, object, string[]]>([
  [{}, {}, []],
  [{ server: { allowedHosts: ['a'] } }, { server: { allowedHosts: ['b'] } }, ['server.allowedHosts changed']],
  [{}, { log: { level: 'debug', format: 'text' } }, ['log.level changed', 'log.format changed']],
  [{}, { collect: { dlq: { every: '31s' } } }, ['collect.dlq.every changed']],
  [
    { alerts: { rules: [above('Stays'), above('Goes'), above('Differs')] } },
    { alerts: { rules: [above('Comes'), above('Differs', 1), above('Stays')] } },
    ['alerts.rules: Goes removed, Differs changed, Comes added'],
  ],
  [
    { alerts: { notifiers: [hook('h', 'https://h.example/canary/x')] } },
    {
      alerts: {
        notifiers: [hook('h', 'https://h.example/canary/y')],
        silences: [{ match: { a: 'b' }, reason: 'x', until: '2099-01-01T00:00:00Z' }],
      },
    },
    ['alerts.silences changed', 'alerts.notifiers: h changed'],
  ],
  [{}, { heartbeat: { url: 'https://hc.example/canary', every: '1m' } }, ['heartbeat changed']],
  [
    { tracing: { headers: { authorization: 'canary 1' } } },
    { tracing: { headers: { authorization: 'canary 2' } } },
    ['tracing.headers.authorization changed'],
  ],
  [
    { autoCancel: { mode: 'plan', rules: [stuck('r', 'https://x')] } },
    { autoCancel: { mode: 'enforce', rules: [stuck('r', 'https://y')] } },
    ['autoCancel.mode changed', 'autoCancel.rules: r changed'],
  ],
  [
    { autoCancel: { rules: [like('stays', 'a.*'), like('r', 'b.*')] } },
    { autoCancel: { rules: [like('stays', 'a.*'), like('r', 'c.*')] } },
    ['autoCancel.rules: r changed'],
  ],
])('says what differs between %j and %j', (before, after, expected) => {
  const changes = changesBetween(configWith(before), configWith(after));
  expect(changes).toEqual(expected);
  expect(JSON.stringify(changes)).not.toContain('canary');
});

it('names ten of many', () => {
  const many = new Map(Array.from({ length: 1000 }, (_, index) => [`a${index}`, index]));
  expect(listChanges('accounts', new Map(), many)[0]).toMatch(/^accounts: a0 added, .*a9 added and 990 more$/);
});

it('tells settings from each other by their secrets and patterns too, and shows neither', () => {
  const settings = (secret: string, pattern: string) => ({ token: new Secret(secret), match: new RegExp(pattern) });
  expect(identityOf(settings('a', 'b'))).toBe(identityOf(settings('a', 'b')));
  expect(identityOf(settings('a', 'b'))).not.toBe(identityOf(settings('c', 'b')));
  expect(identityOf(settings('a', 'b'))).not.toBe(identityOf(settings('a', 'c')));
  expect(identityOf([Number.POSITIVE_INFINITY])).not.toBe(identityOf([null]));
  expect(identityOf(settings('canary', 'b'))).toMatch(/^[0-9a-f]{64}$/);
});

it.each(['config.example.yaml', 'examples/auto-cancel.yaml', 'deploy/agent/config.yaml'])(
  'tells %s from nothing but itself',
  file => {
    const load = () => parseConfig(readFileSync(file, 'utf8'), file).config;
    expect(changesBetween(load(), load())).toEqual([]);
  },
);

it('sees every difference between plain settings, and none in the order of keys', () => {
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
