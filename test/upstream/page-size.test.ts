import type { ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { allRows, createTestClient } from '../support/client.ts';
import { json, serve } from '../support/http-service.ts';

const signal = () => new AbortController().signal;

/** A body above 1 MiB that is nested too deeply. Like a body above 16 MiB, it is not parsed. */
const UNREADABLE = gzipSync('['.repeat(1024 * 1024 + 1));
const refuse = (response: ServerResponse) => response.writeHead(200, { 'content-encoding': 'gzip' }).end(UNREADABLE);

const parametersOf = (url: string | undefined) => new URL(url ?? '', 'http://x').searchParams;

/** Starts a service whose pages of more than `most()` dead letters are unreadable. */
async function startLargeRows(most: () => number) {
  const service = await serve((request, response) => {
    const rows = Number(parametersOf(request.url).get('count'));
    if (rows > most()) refuse(response);
    else json(response, { messages: Array.from({ length: rows }, (_, index) => ({ dlqId: `${index}-0` })) });
  });
  const { reader } = createTestClient(service.url);
  return {
    read: () => allRows(reader.dlqPages({}, signal())),
    /** Returns the numbers of rows requested since the last call. */
    requested: () =>
      service.requests.splice(0).map(request => Number(parametersOf(request.split(' ')[1]).get('count'))),
  };
}

describe('page size', () => {
  it('the page size doubles after 16 consecutive readable pages, up to the initial size', async () => {
    let most = 30;
    const { read, requested } = await startLargeRows(() => most);
    for (let page = 0; page < 17; page += 1) await read();
    // The 17th page is requested with twice the rows, which is still too many.
    expect(requested()).toEqual([100, 50, ...Array(16).fill(25), 50, 25]);
    most = 1000;
    for (let page = 0; page < 60; page += 1) await read();
    expect(requested()).toEqual([...Array(15).fill(25), ...Array(16).fill(50), ...Array(29).fill(100)]);
  });

  it('the page size stays at one row while that row is too large', async () => {
    const { read, requested } = await startLargeRows(() => 0);
    for (let page = 0; page < 3; page += 1) await expect(read()).rejects.toMatchObject({ reason: 'invalid_response' });
    expect(requested()).toEqual([100, 50, 25, 12, 6, 3, 1, 1, 1]);
  });

  it('a smaller page size does not affect a page that has already been requested', async () => {
    const isSmall = Promise.withResolvers<void>();
    const service = await serve((request, response) => {
      const parameters = parametersOf(request.url);
      const rows = Number(parameters.get('count'));
      const messages = Array.from({ length: rows }, (_, index) => ({ dlqId: `${index}-0` }));
      if (parameters.has('label')) return void isSmall.promise.then(() => json(response, { messages }));
      if (rows > 1) return refuse(response);
      isSmall.resolve();
      json(response, { messages });
    });
    const { reader } = createTestClient(service.url);
    const [slow, small] = await Promise.all([
      allRows(reader.dlqPages({ label: 'l' }, signal())),
      allRows(reader.dlqPages({}, signal())),
    ]);
    expect([slow.length, small.length]).toEqual([100, 1]);
  });
});
