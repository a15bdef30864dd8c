import { createInterface } from 'node:readline';
import { Command } from 'commander';
import { type LoadedConfig, loadConfig } from '../config/load.ts';
import { systemClock } from '../kit/clock.ts';
import { type Closing, withClosing } from '../kit/closing.ts';
import { someOf } from '../kit/text.ts';
import {
  checkToken,
  type RotateDeps,
  type RotationDeps,
  RotationError,
  rotateToken,
  type TokenAccount,
  type TokenReport,
} from '../rotation/index.ts';
import { openAccountRecord } from '../store/account-file.ts';
import { StoreError } from '../store/errors.ts';
import { lockForProcess } from '../store/lock.ts';
import { createDispatchers } from '../upstream/dispatcher.ts';
import { addressesOf } from '../upstream/options.ts';

type Account = LoadedConfig['config']['accounts'][number];

function findAccount({ config, file }: LoadedConfig, name: string): Account {
  const found = config.accounts.find(account => account.name === name);
  if (found) return found;
  const names = someOf(config.accounts.map(({ name }) => name));
  throw new RotationError(`${file} has no account ${name}; it has ${names}`, { isUsage: true });
}

function checkedAccount(
  { config }: LoadedConfig,
  account: Account,
  env: RotationDeps['env'],
  closing: Closing,
): TokenAccount {
  const { name, token, upstream } = account;
  return {
    name,
    token,
    addresses: addressesOf(account),
    connect() {
      const dispatchers = createDispatchers(env);
      closing.add('connections', () => dispatchers.destroy());
      return { dispatcher: dispatchers.for(upstream), timeout: upstream.timeout };
    },
    planFile: openAccountRecord(config.store, name, env),
  };
}

function lock(path: string): () => void {
  try {
    return lockForProcess(path);
  } catch (error) {
    if (!(error instanceof StoreError && error.reason === 'locked')) throw error;
    throw new RotationError('another rotate-token of this account is running; nothing was sent');
  }
}

/** Checks the token of an account without changing it. Throws RotationError. */
function checkConfiguredToken(loaded: LoadedConfig, name: string, deps: RotationDeps): Promise<TokenReport> {
  return withClosing(async closing =>
    checkToken(checkedAccount(loaded, findAccount(loaded, name), deps.env, closing), deps),
  );
}

/** Resets the token of an account. Throws RotationError with the next step. */
function rotateConfiguredToken(loaded: LoadedConfig, name: string, deps: RotateDeps): Promise<void> {
  return withClosing(async closing => {
    const account = findAccount(loaded, name);
    const { management, actionToken, paths } = account;
    if (!management) {
      throw new RotationError(
        `${loaded.file}: ${name} has no management section; rotate-token needs { baseUrl, username, password } there`,
        { isUsage: true },
      );
    }
    const checked = checkedAccount(loaded, account, deps.env, closing);
    const hold = (path: string) => closing.add('lock', lock(path));
    const operation = { ...management, path: paths.rotateToken };
    await rotateToken({ ...checked, management: operation, actionToken, lock: hold }, deps);
  });
}

interface Options {
  readonly config: string;
  readonly account: string;
  readonly out?: string;
  readonly yes?: boolean;
  readonly check?: boolean;
}

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

/** Ignores SIGHUP, SIGINT and SIGTERM during `work`, to avoid losing the response. */
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
    throw new RotationError('no terminal to ask for confirmation; --yes skips the question', { isUsage: true });
  }
  const loaded = loadConfig(file, process.env);
  const deps = { env: process.env, clock: systemClock, random: Math.random, out };
  const say = (line: string) => void process.stdout.write(`${line}\n`);
  if (!check) {
    const confirm = yes ? async () => true : ask;
    return rotateConfiguredToken(loaded, account, { ...deps, confirm, uninterrupted, say });
  }
  const { isHealthy, ...report } = await checkConfiguredToken(loaded, account, deps);
  say(`account      ${report.account}`);
  say(`token        ${report.fingerprint}, in ${report.place}`);
  say(`age          ${report.age}`);
  say(`the service  ${report.service}`);
  say(`unfinished   ${report.unfinished}`);
  if (!isHealthy) throw new RotationError(`the token of ${account} needs attention: see above`);
}

export function rotateTokenCommand(): Command {
  return new Command('rotate-token')
    .description("reset an account's token; saves the response before using it")
    .requiredOption('--config <file>', 'configuration file; required')
    .requiredOption('--account <name>', 'account whose token is reset; required')
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
