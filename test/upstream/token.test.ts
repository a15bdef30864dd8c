import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/kit/secret.ts';
import type { UpstreamError } from '../../src/upstream/errors.ts';
import { RECHECK_AFTER, tokenSource } from '../../src/upstream/token.ts';
import { allKeys, createTestClient, TOKEN } from '../support/client.ts';
import { newFolder } from '../support/folder.ts';
import { json, serve } from '../support/http-service.ts';
import { createManualClock } from '../support/manual-clock.ts';

const signal = () => new AbortController().signal;

describe('rejected tokens', () => {
  function serveRejecting(good: () => string) {
    return serve((request, response) => {
      if (request.headers.authorization === `Bearer ${good()}`) json(response, []);
      else json(response, { error: 'no' }, 401);
    });
  }

  it('a rejected token is retried with a single request every minute until the service accepts it', async () => {
    let good = 'another';
    const service = await serveRejecting(() => good);
    const clock = createManualClock();
    const { reader, rejections } = createTestClient(service.url, { clock });
    const ask = () =>
      allKeys(reader, signal()).then(
        () => 'ok',
        (error: UpstreamError) => error.reason,
      );
    expect([await ask(), await ask(), await ask()]).toEqual(Array(3).fill('unauthorized'));
    expect(service.requests).toHaveLength(1);
    expect(rejections).toEqual([true]);
    await clock.advance(RECHECK_AFTER);
    expect(await Promise.all([ask(), ask(), ask()])).toEqual(Array(3).fill('unauthorized'));
    expect(service.requests).toHaveLength(2);
    good = TOKEN;
    expect(await ask()).toBe('unauthorized');
    await clock.advance(RECHECK_AFTER);
    expect([await ask(), await ask()]).toEqual(['ok', 'ok']);
    expect(service.requests).toHaveLength(4);
    expect(rejections).toEqual([true, false]);
  });

  it('a 401 for a list of an optional collector does not mark the token as rejected', async () => {
    const service = await serve((request, response) => {
      const isAllowed = request.url?.startsWith('/v2/flowControl');
      json(response, isAllowed ? [] : { error: 'no' }, isAllowed ? 200 : 401);
    });
    const { reader, rejections } = createTestClient(service.url);
    const queues = () => reader.queues(signal(), () => undefined).catch((error: UpstreamError) => error.reason);
    expect([await queues(), await queues()]).toEqual(['unauthorized', 'unauthorized']);
    expect((await allKeys(reader, signal())).rows).toEqual([]);
    expect([await queues(), service.requests.length]).toEqual(['unauthorized', 4]);
    expect(rejections).toEqual([false]);
  });

  it.each([
    ['"abc"', true],
    ["'abc'", true],
    ['abc"', true],
    ['"abc', true],
    ['abc', false],
    ['a"b"c', false],
  ])('the error about the rejected token %s mentions quotes: %s', async (token, isExpected) => {
    const service = await serveRejecting(() => 'another');
    const { reader } = createTestClient(service.url, { token: async () => new Secret(token) });
    for (const attempt of ['first', 'suppressed']) {
      const { message } = await allKeys(reader, signal()).catch(error => error);
      expect([attempt, message.startsWith("the token's value contains quotes: ")]).toEqual([attempt, isExpected]);
      expect(message).not.toContain(token);
    }
  });

  it('a rejected token does not block its replacement, even if the token changes during a request', async () => {
    let token = 'old';
    let swapDuringRequest = false;
    const service = await serve((request, response) => {
      if (swapDuringRequest) token = 'new';
      json(response, [], request.headers.authorization === 'Bearer new' ? 200 : 401);
    });
    const { reader, rejections } = createTestClient(service.url, { token: async () => new Secret(token) });
    await expect(allKeys(reader, signal())).rejects.toMatchObject({ reason: 'unauthorized' });
    swapDuringRequest = true;
    await expect(allKeys(reader, signal())).rejects.toMatchObject({ reason: 'unauthorized' });
    expect(service.requests).toHaveLength(1);
    token = 'newer';
    await expect(allKeys(reader, signal())).resolves.toMatchObject({ rows: [] });
    expect(service.headers.map(({ authorization }) => authorization)).toEqual([
      'Bearer old',
      'Bearer newer',
      'Bearer new',
    ]);
    expect(rejections).toEqual([true, false]);
  });
});

describe('token files', () => {
  it('a token file is read again when it changes, and fails as unauthorized while missing or invalid', async () => {
    const path = join(newFolder(), 'token');
    const token = tokenSource({ file: path }, {});
    await expect(token()).rejects.toMatchObject({ reason: 'unauthorized' });
    await writeFile(path, 'first\n');
    expect((await token()).reveal()).toBe('first');
    await writeFile(path, ' second-one ');
    expect((await token()).reveal()).toBe('second-one');
    for (const invalid of ['\n', 'two\nlines', 'schl\u00fcssel']) {
      await writeFile(path, invalid);
      await expect(token()).rejects.toMatchObject({
        reason: 'unauthorized',
        message: `the token file ${path} contains no token`,
      });
    }
  });

  it('reading a token file fails if the file is a device, or has more than 64 KiB', async () => {
    const long = join(newFolder(), 'token');
    await writeFile(long, 'x'.repeat(65_537));
    for (const path of ['/dev/zero', long]) {
      const message = `the token file ${path} can't be read`;
      await expect(tokenSource({ file: path }, {})()).rejects.toMatchObject({ reason: 'unauthorized', message });
    }
  });

  it('no request is sent or counted if the token file is unreadable', async () => {
    const service = await serve((_request, response) => json(response, []));
    const { reader, counts } = createTestClient(service.url, {
      token: tokenSource({ file: '/nonexistent/token' }, {}),
    });
    await expect(allKeys(reader, signal())).rejects.toMatchObject({ reason: 'unauthorized' });
    expect(counts.requests).toEqual({});
    expect(service.requests).toEqual([]);
  });
});
