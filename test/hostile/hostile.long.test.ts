import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { atThisLoad, eventually } from '../support/eventually.ts';
import { type AgentProcess, startAgentProcess } from './agent.ts';
import { bugsOf, createHealthyWatch, type HealthyWatch, missingOf, type Status } from './checks.ts';
import { CANARY, type Fleet, startableServices, startHealthyFleet } from './fleet.ts';
import { type FleetThread, startFleetThread } from './fleet-thread.ts';
import { KINDS, read, type Scrape, scrape } from './scrape.ts';
import { hostileServices } from './services.ts';

/** Time limit for the agent to report the expected state of every service (ms). */
const REPORTED_WITHIN_MS = 400_000;

let hostile: FleetThread;
let healthy: Fleet;
let agent: AgentProcess;
/** Result of the latest check. `faults` contains the violations found by all checks. */
let latest: { scrape: Scrape; status: Status };
const faults: string[] = [];
let checks = 0;
let healthyWatch: HealthyWatch;
let watching: Promise<void>;
let stopped = false;

const services = startableServices(hostileServices);
const PATHS = ['/', '/metrics/agent', '/probe?account=html', '/api/v1/status', '/api/v1/sd'];

async function check(): Promise<void> {
  const shown = await scrape(agent.url, KINDS[checks % KINDS.length] as (typeof KINDS)[number]);
  const status = await read(`${agent.url}/api/v1/status`);
  latest = { scrape: shown, status: JSON.parse(status.text) };
  faults.push(...healthyWatch.faults(shown), ...bugsOf(shown));
  const path = PATHS[checks % PATHS.length] as string;
  for (const { headers, text } of [shown, status, await read(agent.url + path)]) {
    if ((headers + text).includes(CANARY)) faults.push(`a token on /metrics, /api/v1/status or ${path}`);
  }
  checks += 1;
}

async function watch(): Promise<void> {
  while (!stopped) {
    await check().catch(error => faults.push(String(error)));
    // Each check takes a few tenths of a second of CPU time in the agent and in the test process.
    await sleep(5000);
  }
}

beforeAll(async () => {
  hostile = await startFleetThread(services, 1);
  healthy = await startHealthyFleet(1);
  agent = await startAgentProcess([...hostile.accounts, ...healthy.accounts], 30);
  healthyWatch = createHealthyWatch(['healthy-1'], atThisLoad(REPORTED_WITHIN_MS));
  await eventually(check, REPORTED_WITHIN_MS);
  watching = watch();
});

afterAll(async () => {
  stopped = true;
  await watching;
  await agent?.close();
  await hostile?.close();
  await healthy?.close();
});

describe('hostile services', () => {
  it.each(services)('the agent reports the expected state for the hostile service $name', async service => {
    await eventually(() => expect(missingOf(service, latest.scrape, latest.status)).toEqual([]), REPORTED_WITHIN_MS);
  });

  it('alongside hostile services, the metrics of healthy accounts stay correct, every scrape is valid and no bug is counted', async () => {
    await eventually(() => expect([...healthyWatch.awaited]).toEqual([]), REPORTED_WITHIN_MS);
    await eventually(() => expect(checks).toBeGreaterThan(10));
    expect([...new Set(faults)]).toEqual([]);
  });

  it('the agent sends no forbidden request to hostile services and exposes no token', async () => {
    expect([...(await hostile.complaints()), ...healthy.complaints()].join('\n')).toBe('');
    stopped = true;
    await watching;
    agent.kill('SIGTERM');
    expect(await agent.ended).toBe(0);
    const output = agent.stdout() + agent.stderr();
    expect(output).toContain('collection failed');
    expect(output).not.toContain(CANARY);
    expect(output).not.toContain('"msg":"bug"');
  });
});
