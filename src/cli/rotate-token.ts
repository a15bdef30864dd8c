import { createInterface } from 'node:readline';
import { Command } from 'commander';
import { loadConfig } from '../config/load.ts';
import { systemClock } from '../kit/clock.ts';
import { checkToken, RotationError, rotateToken } from './token-rotation.ts';

interface Options {
  readonly config: string;
  readonly account: string;
  readonly out?: string;
  readonly yes?: boolean;
  readonly check?: boolean;
}

/** Asks on the terminal; anything but y or yes, and its end, is no. */
function ask(question: string): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  return new Promise(resolve => {
    terminal.once('close', () => resolve(false));
    terminal.question(`${question} [y/N] `, answer => {
      resolve(/^y(es)?$/i.test(answer.trim()));
      terminal.close();
    });
  });
}

/** While `work` runs, a closed terminal and Ctrl-C do not end the process: the answer would be lost. */
async function uninterrupted<T>(work: () => Promise<T>): Promise<T> {
  const signals = ['SIGHUP', 'SIGINT', 'SIGTERM'] as const;
  const ignore = () => undefined;
  for (const signal of signals) process.on(signal, ignore);
  try {
    return await work();
  } finally {
    for (const signal of signals) process.off(signal, ignore);
  }
}

async function run({ config: file, account, out, yes, check }: Options): Promise<void> {
  if (!yes && !check && !process.stdin.isTTY) {
    throw new RotationError('no terminal to ask for confirmation; use --yes to skip it', { isUsage: true });
  }
  const loaded = loadConfig(file, process.env);
  const deps = { env: process.env, clock: systemClock, random: Math.random, out };
  const say = (line: string) => void process.stdout.write(`${line}\n`);
  if (!check) {
    const confirm = yes ? async () => true : ask;
    return rotateToken(loaded, account, { ...deps, confirm, uninterrupted, say });
  }
  const { isWell, ...report } = await checkToken(loaded, account, deps);
  say(`account      ${report.account}`);
  say(`token        ${report.fingerprint}, in ${report.place}`);
  say(`age          ${report.age}`);
  say(`the service  ${report.service}`);
  say(`unfinished   ${report.unfinished}`);
  if (!isWell) throw new RotationError(`the token of ${account} needs attention: see above`);
}

export function rotateTokenCommand(): Command {
  return new Command('rotate-token')
    .description("reset an account's token; saves the response before using it")
    .requiredOption('--config <file>', 'configuration file')
    .requiredOption('--account <name>', 'account whose token is reset')
    .option('--out <file>', 'new file for the response; default: next to the token file, or in the working directory')
    .option('--yes', 'do not ask for confirmation')
    .option(
      '--check',
      'reset nothing; report the token, its age, whether the service accepts it and whether a reset is unfinished',
    )
    .action(async (options: Options, command: Command) => {
      try {
        await run(options);
      } catch (error) {
        if (error instanceof RotationError && error.isUsage) return command.error(`error: ${error.message}`);
        throw error;
      }
    });
}
