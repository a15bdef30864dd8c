import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { unlimited } from '../support/agent.ts';
import { mainFile } from '../support/bundle.ts';
import { newFolder } from '../support/folder.ts';
import { serve } from '../support/http-service.ts';

const ROWS = 100_000;
const PAGE = 100;

/** Runs `list dlq`. Returns the exit code, the number of output lines and the peak memory (MiB, VmHWM of Linux). */
async function list(config: string, ...options: readonly string[]) {
  const child = spawn(process.execPath, [mainFile(), 'list', 'dlq', '--config', config, '--json', ...options], {
    env: { PATH: process.env.PATH, DELIVERY_TOKEN: 'token' },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  let [lines, peak] = [0, 0];
  child.stdout.on('data', (chunk: Buffer) => {
    for (const byte of chunk) if (byte === 10) lines += 1;
    try {
      const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
      peak = Math.max(peak, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024);
    } catch {
      // The process has exited, but its last output chunks may still arrive.
    }
  });
  const [code] = await once(child, 'close');
  return { code, lines, peak };
}

it('listing 100,000 dead letters of 1 KB takes less than 60 MiB more memory than listing one', async () => {
  const start = Date.now();
  const body = 'x'.repeat(800);
  const service = await serve((request, response) => {
    const first = Number(new URL(request.url ?? '', 'http://x').searchParams.get('cursor') ?? 0);
    const messages = Array.from({ length: PAGE }, (_, index) => {
      const number = first + index;
      return { dlqId: `${start - number}-1`, messageId: `msg_${number}`, url: `https://a.example/${number}`, body };
    });
    const next = first + PAGE;
    response.end(JSON.stringify({ messages, ...(next < ROWS && { cursor: String(next) }) }));
  });
  const config = join(newFolder(), 'config.yaml');
  writeFileSync(config, JSON.stringify({ store: { kind: 'memory' }, accounts: [unlimited('a', service.url)] }));
  const one = await list(config, '--limit', '1');
  const all = await list(config, '--all');
  expect([one, all]).toMatchObject([
    { code: 0, lines: 1 },
    { code: 0, lines: ROWS },
  ]);
  process.stdout.write(`peak memory: ${one.peak} MiB for one row, ${all.peak} MiB for ${ROWS} rows\n`);
  expect(all.peak - one.peak).toBeLessThan(60);
});
