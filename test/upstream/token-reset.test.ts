import { rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { fileToken, resetMark } from '../../src/upstream/token.ts';
import { allKeys, createTestClient } from '../support/client.ts';
import { newFolder } from '../support/folder.ts';
import { json, serve } from '../support/http-service.ts';

/** Starts a service that accepts the token `new`, with a token file that contains `old`. */
async function startReset() {
  const folder = newFolder();
  const file = join(folder, 'token');
  writeFileSync(file, 'old');
  const service = await serve((request, response) =>
    json(response, [], request.headers.authorization === 'Bearer new' ? 200 : 401),
  );
  return { folder, file, service };
}

const signal = () => new AbortController().signal;

describe('tokens rejected during their reset', () => {
  it('the client waits for the new token during a reset, even if the token file is a link, without reporting the rejection', async () => {
    const { folder, file, service } = await startReset();
    symlinkSync(file, join(folder, 'link'));
    const token = fileToken(join(folder, 'link'));
    writeFileSync(resetMark(file), '');
    let reads = 0;
    const source = Object.assign(
      async () => {
        // The token is replaced while the client waits, in the same order as by the command: the token is written before the
        // mark is removed.
        reads += 1;
        if (reads === 4) {
          writeFileSync(file, 'new');
          rmSync(resetMark(file));
        }
        return token();
      },
      { beingReplacedSince: async () => token.beingReplacedSince?.() },
    );
    const { reader, rejections, counts } = createTestClient(service.url, { token: source });
    await expect(allKeys(reader, signal())).resolves.toMatchObject({ rows: [] });
    expect(rejections).toEqual([false]);
    expect(counts.requests).toEqual({ 'flow_control unauthorized': 1, 'flow_control ok': 1 });
  });

  it('the client does not wait for a new token if no reset is running, or if a reset was abandoned more than a minute ago', async () => {
    const { file, service } = await startReset();
    const { reader, rejections, waits } = createTestClient(service.url, { token: fileToken(file) });
    await expect(allKeys(reader, signal())).rejects.toMatchObject({ reason: 'unauthorized' });
    writeFileSync(file, 'another');
    writeFileSync(resetMark(file), '');
    const longAgo = Date.now() / 1000 - 61;
    utimesSync(resetMark(file), longAgo, longAgo);
    await expect(allKeys(reader, signal())).rejects.toMatchObject({ reason: 'unauthorized' });
    expect([rejections, waits, service.requests.length]).toEqual([[true], [], 2]);
  });

  it('the client stops waiting for a new token when the agent stops', async () => {
    const { file, service } = await startReset();
    writeFileSync(resetMark(file), '');
    const stop = new AbortController();
    const { reader, rejections } = createTestClient(service.url, {
      token: Object.assign(fileToken(file), {
        async beingReplacedSince() {
          stop.abort(new Error('stopped'));
          return Date.now();
        },
      }),
    });
    await expect(allKeys(reader, stop.signal)).rejects.toThrow('stopped');
    expect(rejections).toEqual([]);
  });
});
