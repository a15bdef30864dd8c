import { expect, it } from 'vitest';
import { serverAttributes } from '../../src/kit/server-attributes.ts';

it.each([
  [
    'https://user:pw@api.example.com/eu//',
    '/v2/dlq',
    'cursor=secret&count=100&count=1',
    'api.example.com',
    443,
    'https://api.example.com/eu/v2/dlq?cursor=REDACTED&count=REDACTED',
  ],
  [
    'http://api.example.com',
    '/v2/flowControl/{flowControlKey}',
    '',
    'api.example.com',
    80,
    'http://api.example.com/v2/flowControl/REDACTED',
  ],
  ['http://[::1]:8080?token=secret#x', '/a/{b}/{c}', '', '[::1]', 8080, 'http://[::1]:8080/a/REDACTED/REDACTED'],
])('serverAttributes redacts %s', (base, template, query, address, port, url) => {
  expect(serverAttributes(base, template, new URLSearchParams(query))).toEqual({
    'server.address': address,
    'server.port': port,
    'url.full': url,
  });
});
