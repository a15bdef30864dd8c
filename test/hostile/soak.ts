import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { type AgentProcess, startAgentProcess } from './agent.ts';
import { bugsOf, createHealthyWatch, missingOf, type Status } from './checks.ts';
import { CANARY, healthyNames, startableServices, startHealthyFleet } from './fleet.ts';
import { startFleetThread } from './fleet-thread.ts';
import { KINDS, read, scrape } from './scrape.ts';
import { hostileServices } from './services.ts';
import { severeServices } from './size-services.ts';
import { createTally, rssOf, type Tally } from './soak-tally.ts';

const USAGE = `node test/hostile/soak.ts [--minutes 10] [--seed 1] [--only NAME,NAME] [--list]

Runs the real agent against every hostile service and some healthy ones, checks it four times a second and prints
the violations. Exit 0: none; 1: violations; 2: bad usage.
`;

const HEALTHY = 5;
/** Interval between two checks (ms). */
const EVERY = 250;
/** Time limit for the first complete read of every healthy account (ms). */
const FIRST_READ = 30_000;
/** Time limit for the shutdown of the agent (ms). */
const END = 10_000;

const print = (text: string) => void process.stdout.write(text);

/** Parses the command line. Throws an error that describes the first problem. */
export function soakSettings(args: readonly string[]) {
  const { values } = parseArgs({
    args: [...args],
    options: {
      minutes: { type: 'string', default: '10' },
      seed: { type: 'string', default: '1' },
      only: { type: 'string' },
      list: { type: 'boolean', default: false },
    },
  });
  const [minutes, seed] = [Number(values.minutes), Number(values.seed)];
  const known = [...hostileServices, ...severeServices];
  const names = values.only?.split(',') ?? hostileServices.map(({ name }) => name);
  const unknown = names.filter(name => !known.some(service => service.name === name));
  if (!(minutes > 0 && minutes <= 1440) || !Number.isInteger(seed))
    throw new Error('--minutes must be above 0 and at most 1440, --seed an integer');
  if (unknown.length > 0) throw new Error(`no service is called ${unknown}`);
  return {
    minutes,
    seed,
    services: startableServices(known.filter(({ name }) => names.includes(name))),
    list: values.list,
  };
}

/** Checks the agent until `deadline`, or until the soak stops or the agent exits. */
async function watch(agent: AgentProcess, tally: Tally, deadline: number, isStopped: () => boolean): Promise<void> {
  let ended = false;
  void agent.ended.then(() => {
    ended = true;
  });
  const healthy = createHealthyWatch(healthyNames(HEALTHY), FIRST_READ);
  for (let checks = 0; performance.now() < deadline && !isStopped(); checks += 1) {
    const next = performance.now() + EVERY;
    try {
      const shown = await scrape(agent.url, KINDS[checks % KINDS.length] as (typeof KINDS)[number]);
      tally.scraped(shown, rssOf(agent.pid));
      if (shown.text.includes(CANARY)) tally.violated('secrecy', 'a token on /metrics');
      for (const bug of bugsOf(shown)) tally.violated('bug', bug);
      for (const fault of healthy.faults(shown)) tally.violated(`healthy account: ${fault.replace(/ .*/, '')}`, fault);
    } catch (error) {
      if (isStopped()) return;
      if (ended) return tally.violated('agent', `ended with ${await agent.ended}: ${agent.stderr().slice(-2000)}`);
      tally.violated('scrape', String(error));
    }
    const line = tally.minute();
    if (line !== undefined) print(`${line}\n`);
    await sleep(Math.max(0, next - performance.now()));
  }
}

/** Checks at the end that every service is reported as specified, no secret is exposed, and the agent exits in time. */
async function conclude(agent: AgentProcess, tally: Tally, services: typeof hostileServices): Promise<void> {
  const status = await read(`${agent.url}/api/v1/status`);
  const shown = await scrape(agent.url, { format: 'text', gzip: false });
  if (status.text.includes(CANARY)) tally.violated('secrecy', 'a token on /api/v1/status');
  for (const service of services) {
    const missing = missingOf(service, shown, JSON.parse(status.text) as Status);
    if (missing.length > 0) tally.violated(`report of ${service.name}`, missing.join('; '));
  }
  agent.kill('SIGTERM');
  const end = await Promise.race([agent.ended, sleep(END, `not ended within ${END} ms`, { ref: false })]);
  if (end !== 0) tally.violated('end', String(end));
  const output = agent.stdout() + agent.stderr();
  if (output.includes(CANARY)) tally.violated('secrecy', 'a token in the log');
  const bug = output.split('\n').find(line => line.includes('"msg":"bug"'));
  if (bug !== undefined) tally.violated('bug', bug);
}

async function soak({ minutes, seed, services }: ReturnType<typeof soakSettings>): Promise<number> {
  let stopped = false;
  const stop = () => {
    stopped = true;
  };
  process.once('SIGINT', stop).once('SIGTERM', stop);
  const hostile = await startFleetThread(services, seed);
  const healthy = await startHealthyFleet(HEALTHY);
  const agent = await startAgentProcess([...hostile.accounts, ...healthy.accounts], 5);
  print(
    `${hostile.accounts.length} hostile services, ${HEALTHY} healthy; ${minutes} minutes, seed ${seed}, agent ${agent.pid}\n`,
  );
  const tally = createTally();
  try {
    await watch(agent, tally, performance.now() + minutes * 60_000, () => stopped);
    // A SIGINT from the terminal also stops the agent.
    if (!stopped) await conclude(agent, tally, services).catch(error => tally.violated('last check', String(error)));
    for (const complaint of [...(await hostile.complaints()), ...healthy.complaints()])
      tally.violated('request', complaint);
  } finally {
    await agent.close();
    await hostile.close();
    await healthy.close();
  }
  print(`${stopped ? 'stopped early\n' : ''}${tally.table()}`);
  return tally.violations === 0 ? 0 : 1;
}

if (import.meta.main) {
  process.chdir(new URL('../..', import.meta.url).pathname);
  let chosen: ReturnType<typeof soakSettings> | undefined;
  try {
    chosen = soakSettings(process.argv.slice(2));
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n\n${USAGE}`);
    process.exitCode = 2;
  }
  if (chosen?.list) print(chosen.services.map(({ name }) => `${name}\n`).join(''));
  else if (chosen) process.exitCode = await soak(chosen);
  if (process.stdout.writableNeedDrain) await once(process.stdout, 'drain');
}
