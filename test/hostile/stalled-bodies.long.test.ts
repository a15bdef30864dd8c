import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { afterThisTest } from '../support/client.ts';
import { collectOnly } from '../support/collect.ts';
import { eventually } from '../support/eventually.ts';
import { serve } from '../support/http-service.ts';
import { startAgentProcess } from './agent.ts';
import { startHealthyFleet } from './fleet.ts';
import { scrape } from './scrape.ts';

const MIB = 1024 * 1024;
const ACCOUNTS = 60;
/** Requests that time out in each account before the memory is compared. */
const TIMEOUTS = 3;
/**
 * Maximum memory of the agent (MiB): about 160 without large responses, 128 for bodies above 1 MiB, 1 for each body, of which
 * an account reads two concurrently, and 60 for bytes that the sockets have received.
 */
const MAX_MEMORY = 160 + 128 + 2 * ACCOUNTS + 60;

/** Returns the peak memory of a process (MiB). */
const peakOf = (pid: number) =>
  Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? Number.NaN) / 1024;

it(`bodies of ${ACCOUNTS} accounts that stall just below the limit take at most 128 MiB plus 1 MiB each, and a healthy account is still read`, async () => {
  const body = Buffer.alloc(16 * MIB - 1024, ' ');
  const service = await serve((_request, response) => void response.writeHead(200).write(body));
  const healthy = await startHealthyFleet(1);
  afterThisTest(() => healthy.close());
  const accounts = Array.from({ length: ACCOUNTS }, (_, index) => ({
    name: `stalled-${index}`,
    baseUrl: service.url,
    token: 'token',
    budget: {},
    collect: collectOnly('dlq'),
  }));
  const agent = await startAgentProcess([...accounts, ...healthy.accounts], 2);
  afterThisTest(() => agent.close());
  const reads = new Set<number | undefined>();
  let received = 0;
  await eventually(async () => {
    const shown = await scrape(agent.url, { format: 'text', gzip: false });
    reads.add(shown.value('delivery_collector_data_timestamp_seconds', { account: 'healthy-1', round: 'new' }));
    received = shown
      .values('delivery_watch_api_response_bytes_total', { endpoint: 'dlq' })
      .reduce<number>((sum, bytes = 0) => sum + bytes / MIB, 0);
    const timeouts = { endpoint: 'dlq', outcome: 'timeout' };
    for (const { name: account } of accounts) {
      expect(shown.value('delivery_watch_api_requests_total', { account, ...timeouts })).toBeGreaterThanOrEqual(
        TIMEOUTS,
      );
    }
  }, 120_000);
  const peak = peakOf(agent.pid);
  process.stdout.write(`received ${received.toFixed(0)} MiB, peak memory ${peak.toFixed(0)} MiB\n`);
  expect(peak).toBeLessThan(MAX_MEMORY);
  expect(received).toBeGreaterThan(TIMEOUTS * 128);
  expect(reads.size).toBeGreaterThan(TIMEOUTS);
});
