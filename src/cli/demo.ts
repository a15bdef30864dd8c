import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Command, CommanderError } from 'commander';
import { type Agent, startAgent } from '../agent/agent.ts';
import { type LoadedConfig, loadConfig } from '../config/load.ts';
import { Config } from '../config/schema.ts';
import { scenarios } from '../emulator/scenarios.ts';
import type { Emulator } from '../emulator/server.ts';
import { acceleratedClock, type Clock, systemClock } from '../kit/clock.ts';
import { type Closing, withClosing } from '../kit/closing.ts';
import { version } from '../kit/version.ts';
import { autoCancelCommand } from './auto-cancel.ts';
import { DEMO_EVENTS, DEMO_SEED, demoSettings, demoSpeed } from './demo-settings.ts';
import { startEmulatorFor } from './emulate.ts';
import { numberOption, printWarnings } from './option-values.ts';
import { addEntries, commandWords, startReceiver } from './rehearsal.ts';
import { ACTING_SPEED, dlqRetention, rehearsalClock, rehearsalConfig } from './rehearsal-config.ts';
import { untilStopped } from './until-stopped.ts';

/** Time range of the event log that the agent reads at startup to find messages in flight (ms). */
const BACKFILL = 3_600_000;

/** Default speed of a rehearsal: two days pass in about three minutes. */
const REHEARSAL_SPEED = 900;

const HINTS: Readonly<Record<string, string>> = {
  'stuck-callback':
    'After a minute the first failure callbacks have been stuck for half a day: see /api/v1/journal?since=30d.',
};

const SCENARIOS = Object.entries(scenarios)
  .map(([name, { description }]) => `  ${name}\n      ${description}`)
  .join('\n');

interface Options {
  readonly config?: string;
  readonly scenario?: string;
  readonly speed?: number;
  readonly listen: string;
}

/** Returns the emulator's options for a rehearsal. Without a scenario, the emulator has no workload. */
function rehearsalService({ config }: LoadedConfig, scenario: string | undefined) {
  const retention = dlqRetention(config);
  const quiet = { workload: false, history: 0, dlqEntries: 0, logRetention: retention };
  return { accounts: config.accounts.length, dlqRetention: retention, ...(scenario === undefined && quiet) };
}

const timeNote = (speed: number, isRehearsal: boolean) =>
  `Time runs ${speed} times as fast for service and agent${isRehearsal ? `, and ${Math.min(speed, ACTING_SPEED)} times while a rule may first act` : ''}. Prometheus keeps real time: rates look too high, and timestamps lie in its future.`;

interface Running {
  readonly emulator: Emulator;
  readonly clock: Clock;
  readonly speed: number;
  readonly listen: string;
  readonly folder: string;
  readonly closing: Closing;
  readonly command: Command;
}

const print = (line: string) => void process.stdout.write(`${line}\n`);

async function start(config: Config, { clock, closing }: Pick<Running, 'clock' | 'closing'>): Promise<Agent> {
  const loaded = { file: 'demo', config, hash: 'demo', warnings: [] };
  // Ignore the environment: OpenTelemetry's variables would send spans and metrics elsewhere.
  const agent = await startAgent(loaded, { env: {}, clock, random: Math.random, backfill: BACKFILL });
  closing.add('agent', () => agent.close());
  return agent;
}

function emulatedConfig(
  names: readonly string[],
  more: { readonly log: object; readonly config?: object; readonly account?: object },
  { emulator, listen, folder, command }: Running,
): Config {
  const accounts = names.map((name, index) => ({
    name,
    baseUrl: emulator.url,
    token: emulator.accounts[index]?.token,
    ...more.account,
  }));
  const store = { path: join(folder, 'demo.db') };
  const { data, error } = Config.safeParse({ server: { listen }, log: more.log, store, accounts, ...more.config });
  return data ?? command.error(`error: --listen ${error?.issues[0]?.message}`);
}

function startDemo(scenario: string, running: Running): Promise<Agent> {
  const log = { level: 'warn', format: 'text' };
  return start(emulatedConfig(['demo'], { log, ...demoSettings(scenario, running.speed) }, running), running);
}

/** Runs lines of standard input as `auto-cancel` commands, on the rehearsal's clock. */
function readCommands(file: string, { clock, speed, closing }: Running): void {
  const terminal = createInterface({ input: process.stdin });
  closing.add('commands', () => terminal.close());
  terminal.on('line', line => {
    const words = commandWords(line);
    if (words[0] === undefined) return;
    const args = words[0] === 'help' ? ['help'] : [...words, '--config', file];
    autoCancelCommand({ clock, speed })
      .parseAsync(args, { from: 'user' })
      .catch((error: unknown) => error instanceof CommanderError || print((error as Error).message));
  });
}

async function startRehearsal(loaded: LoadedConfig, running: Running): Promise<Agent> {
  const { emulator, folder, closing } = running;
  const receiver = await startReceiver(print);
  closing.add('receiver', receiver.close);
  const notes = addEntries(loaded.config, emulator.accounts);
  printWarnings(loaded.warnings);
  const names = loaded.config.accounts.map(({ name }) => name);
  const base = emulatedConfig(names, { log: { level: 'info', format: 'text' } }, running);
  const config = rehearsalConfig(loaded.config, base, { ...running, receiver: receiver.url });
  const agent = await start(config, running);
  const file = join(folder, 'rehearsal.yaml');
  const settings = { store: { path: base.store.path }, accounts: names.map(name => ({ name })) };
  await writeFile(file, JSON.stringify(settings));
  readCommands(file, running);
  print(
    `This rehearses ${loaded.file}: its services, receivers and secrets are not used. Nothing leaves this process.`,
  );
  print('Type auto-cancel commands here, such as: pending, approve ID, explain ID, journal, help.');
  for (const note of notes) print(`note: ${note}`);
  return agent;
}

/** Runs the emulated service and an agent in one process, so that nothing else must be installed. */
export function demoCommand(): Command {
  return new Command('demo')
    .description('run the agent against the embedded emulator; no configuration needed')
    .option(
      '--config <file>',
      'rehearse the rules, alerts and filters of this configuration; nothing is sent elsewhere',
    )
    .option('--scenario <name>', 'scenario that the emulator plays; default: steady; with --config, no scenario')
    .option(
      '--speed <x>',
      `emulated seconds per real second, for service and agent but not for Prometheus; default: depends on the scenario; with --config, ${REHEARSAL_SPEED}`,
      numberOption(1, 3600),
    )
    .option('--listen <address>', 'host:port that the agent listens on', '127.0.0.1:10922')
    .addHelpText('after', `\nScenarios:\n${SCENARIOS}`)
    .action(async ({ config: file, scenario: named, speed: given, listen }: Options, command: Command) => {
      const scenario = named ?? 'steady';
      const stopped = untilStopped();
      // A rehearsal needs no secrets.
      const loaded = file === undefined ? undefined : loadConfig(file);
      const speed = given ?? (loaded ? REHEARSAL_SPEED : demoSpeed(scenario));
      const clock = loaded ? rehearsalClock(systemClock, speed, loaded.config) : acceleratedClock(systemClock, speed);
      await withClosing(async closing => {
        const emulator = await startEmulatorFor(command, {
          scenario,
          seed: DEMO_SEED,
          maxEvents: DEMO_EVENTS,
          clock,
          ...(loaded && rehearsalService(loaded, named)),
        });
        closing.add('emulator', () => emulator.close());
        const folder = await mkdtemp(join(tmpdir(), 'delivery-watch-demo-'));
        closing.add('folder', () => rm(folder, { recursive: true, force: true }));
        const running = { emulator, clock, speed, listen, folder, closing, command };
        const agent = await (loaded ? startRehearsal(loaded, running) : startDemo(scenario, running));
        print(
          [
            `delivery-watch ${version}: the agent watches an emulated service`,
            `  status page  ${agent.url}/`,
            `  metrics      ${agent.url}/metrics`,
            `  emulator     ${emulator.url}/`,
            ...(speed === 1 ? [] : [timeNote(speed, loaded !== undefined)]),
            ...(HINTS[scenario] && !loaded ? [HINTS[scenario]] : []),
            'Stop with Ctrl-C.',
          ].join('\n'),
        );
        await stopped;
      });
    });
}
