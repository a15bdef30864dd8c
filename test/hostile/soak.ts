import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { type AgentProcess, startAgentProcess } from './agent.ts';
import { CANARY, startableServices, startWellFleet, wellNames } from './fleet.ts';
import { startFleetThread } from './fleet-thread.ts';
import { bugsOf, createWellWatch, missingOf, type Status } from './judge.ts';
import { KINDS, read, scrape } from './scrape.ts';
import { hostileServices } from './services.ts';
import { severeServices } from './size-services.ts';
import { createTally, rssOf, type Tally } from './soak-tally.ts';

const USAGE = `node test/hostile/soak.ts [--minutes 10] [--seed 1] [--only NAME,NAME] [--list]

Runs the real agent against every hostile service and some that are well, looks at it four times a second, and
says what broke. Exit 0: nothing; 1: something; 2: bad usage.
`;

const WELL = 5;
/** Milliseconds between two looks. */
const EVERY = 250;
/** Milliseconds in which every well account must have been read for the first time. */
const FIRST_READ = 30_000;
/** Milliseconds in which the agent must end when it is told to. */
const END = 10_000;

const say = (text: string) => void process.stdout.write(text);

/** What a command line asks for. Throws with what is wrong with it. */
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
    throw new Error('minutes from 0 to 1440, a whole seed');
  if (unknown.length > 0) throw new Error(`no service is called ${unknown}`);
  return {
    minutes,
    seed,
    services: startableServices(known.filter(({ name }) => names.includes(name))),
    list: values.list,
  };
}

/** Looks at the agent until `deadline`, or until it is stopped or ends. */
async function watch(agent: AgentProcess, tally: Tally, deadline: number, isStopped: () => boolean): Promise<void> {
  let ended = false;
  void agent.ended.then(() => {
    ended = true;
  });
  const well = createWellWatch(wellNames(WELL), FIRST_READ);
  for (let looks = 0; performance.now() < deadline && !isStopped(); looks += 1) {
    const next = performance.now() + EVERY;
    try {
      const shown = await scrape(agent.url, KINDS[looks % KINDS.length] as (typeof KINDS)[number]);
      tally.scraped(shown, rssOf(agent.pid));
      if (shown.text.includes(CANARY)) tally.violated('secrecy', 'a token on /metrics');
      for (const bug of bugsOf(shown)) tally.violated('bug', bug);
      for (const fault of well.faults(shown)) tally.violated(`well account: ${fault.replace(/ .*/, '')}`, fault);
    } catch (error) {
      if (isStopped()) return;
      if (ended) return tally.violated('agent', `ended with ${await agent.ended}: ${agent.stderr().slice(-2000)}`);
      tally.violated('scrape', String(error));
    }
    const line = tally.minute();
    if (line !== undefined) say(`${line}\n`);
    await sleep(Math.max(0, next - performance.now()));
  }
}

/** The last look: every service reported as it must be, nothing said that is secret, an end in time. */
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
  const said = agent.stdout() + agent.stderr();
  if (said.includes(CANARY)) tally.violated('secrecy', 'a token in the log');
  const bug = said.split('\n').find(line => line.includes('"msg":"bug"'));
  if (bug !== undefined) tally.violated('bug', bug);
}

async function soak({ minutes, seed, services }: ReturnType<typeof soakSettings>): Promise<number> {
  let stopped = false;
  const stop = () => {
    stopped = true;
  };
  process.once('SIGINT', stop).once('SIGTERM', stop);
  const hostile = await startFleetThread(services, seed);
  const well = await startWellFleet(WELL);
  const agent = await startAgentProcess([...hostile.accounts, ...well.accounts], 5);
  say(
    `${hostile.accounts.length} hostile services, ${WELL} well; ${minutes} minutes, seed ${seed}, agent ${agent.pid}\n`,
  );
  const tally = createTally();
  try {
    await watch(agent, tally, performance.now() + minutes * 60_000, () => stopped);
    // What stops this from a terminal stops the agent, too.
    if (!stopped) await conclude(agent, tally, services).catch(error => tally.violated('last look', String(error)));
    for (const complaint of [...(await hostile.complaints()), ...well.complaints()]) tally.violated('asked', complaint);
  } finally {
    await agent.close();
    await hostile.close();
    await well.close();
  }
  say(`${stopped ? 'stopped early\n' : ''}${tally.table()}`);
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
  if (chosen?.list) say(chosen.services.map(({ name }) => `${name}\n`).join(''));
  else if (chosen) process.exitCode = await soak(chosen);
  if (process.stdout.writableNeedDrain) await once(process.stdout, 'drain');
}
