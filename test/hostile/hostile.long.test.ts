import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { atThisLoad, eventually } from '../support/eventually.ts';
import { type AgentProcess, startAgentProcess } from './agent.ts';
import { CANARY, type Fleet, startableServices, startWellFleet } from './fleet.ts';
import { type FleetThread, startFleetThread } from './fleet-thread.ts';
import { bugsOf, createWellWatch, missingOf, type Status, type WellWatch } from './judge.ts';
import { KINDS, read, type Scrape, scrape } from './scrape.ts';
import { hostileServices } from './services.ts';

/** Milliseconds after which every service must have been reported as it must be. */
const REPORTED_WITHIN_MS = 400_000;

let hostile: FleetThread;
let well: Fleet;
let agent: AgentProcess;
/** The latest look at the agent, and whatever was wrong in any look so far. */
let latest: { scrape: Scrape; status: Status };
const faults: string[] = [];
let looks = 0;
let wellWatch: WellWatch;
let watching: Promise<void>;
let stopped = false;

const services = startableServices(hostileServices);
const PATHS = ['/', '/metrics/agent', '/probe?account=html', '/api/v1/status', '/api/v1/sd'];

async function look(): Promise<void> {
  const shown = await scrape(agent.url, KINDS[looks % KINDS.length] as (typeof KINDS)[number]);
  const status = await read(`${agent.url}/api/v1/status`);
  latest = { scrape: shown, status: JSON.parse(status.text) };
  faults.push(...wellWatch.faults(shown), ...bugsOf(shown));
  const path = PATHS[looks % PATHS.length] as string;
  for (const { headers, text } of [shown, status, await read(agent.url + path)]) {
    if ((headers + text).includes(CANARY)) faults.push(`a token at ${path} or beside it`);
  }
  looks += 1;
}

async function watch(): Promise<void> {
  while (!stopped) {
    await look().catch(error => faults.push(String(error)));
    // A look costs the agent and its judge some tenths of a second each.
    await sleep(5000);
  }
}

beforeAll(async () => {
  hostile = await startFleetThread(services, 1);
  well = await startWellFleet(1);
  agent = await startAgentProcess([...hostile.accounts, ...well.accounts], 30);
  wellWatch = createWellWatch(['well-1'], atThisLoad(REPORTED_WITHIN_MS));
  await eventually(look, REPORTED_WITHIN_MS);
  watching = watch();
});

afterAll(async () => {
  stopped = true;
  await watching;
  await agent?.close();
  await hostile?.close();
  await well?.close();
});

describe('a hostile world', () => {
  it.each(services)('reports $name', async service => {
    await eventually(() => expect(missingOf(service, latest.scrape, latest.status)).toEqual([]), REPORTED_WITHIN_MS);
  });

  it('never touches who is well, never breaks a scrape, and has no bug', async () => {
    await eventually(() => expect([...wellWatch.awaited]).toEqual([]), REPORTED_WITHIN_MS);
    await eventually(() => expect(looks).toBeGreaterThan(10));
    expect([...new Set(faults)]).toEqual([]);
  });

  it('asks nobody for what it must not, and tells nobody a token', async () => {
    expect([...(await hostile.complaints()), ...well.complaints()]).toEqual([]);
    stopped = true;
    await watching;
    agent.kill('SIGTERM');
    expect(await agent.ended).toBe(0);
    const said = agent.stdout() + agent.stderr();
    expect(said).toContain('collecting failed');
    expect(said).not.toContain(CANARY);
    expect(said).not.toContain('"msg":"bug"');
  });
});
