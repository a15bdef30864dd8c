import { writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { Command } from 'commander';
import { type Closing, withClosing } from '../kit/closing.ts';
import { failureOf } from '../kit/failure.ts';
import { checkToken, RotationError, rotateToken } from '../rotation/index.ts';
import { openAccountRecord } from '../store/account-row.ts';
import { lockForProcess } from '../store/database.ts';
import { StoreError } from '../store/errors.ts';
import { createDispatchers } from '../upstream/dispatcher.ts';
import { configOption } from './config-option.ts';
import { loadAccounts, realDeps } from './read-alone.ts';

interface Options {
  readonly config: string;
  readonly account: string;
  readonly out?: string;
  readonly yes?: boolean;
  readonly check?: boolean;
}

/** Locks `path` and returns a function that unlocks it. Throws RotationError. */
function lock(path: string): () => void {
  try {
    return lockForProcess(path);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const isLocked = error instanceof StoreError && error.reason === 'locked';
    throw new RotationError(
      isLocked
        ? 'another rotate-token of this account is running; nothing was sent'
        : `${dirname(path)} can't be written (${code ?? message}); nothing was sent. Use --out FILE with a file in another folder`,
    );
  }
}

async function ask(question: string): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  // Rejects if the operator closes the input.
  const answer = await terminal.question(`${question} [y/N] `).catch(() => '');
  terminal.close();
  return /^y(es)?$/i.test(answer.trim());
}

/** Writes to the first of these that works: the operator's terminal, standard error, standard output. */
function handOver(text: string): void {
  for (const target of ['/dev/tty', 2, 1]) if (!failureOf(() => writeFileSync(target, text))) return;
}

async function run({ account: name, out, yes, check, ...options }: Options, command: Command, closing: Closing) {
  if (!yes && !check && !process.stdin.isTTY) {
    throw new RotationError('no terminal to ask for confirmation; --yes skips the question', true);
  }
  const { config } = loadAccounts(command, { ...options, account: [name] });
  const [account] = config.accounts;
  if (!account) return;
  let text = '';
  const say = (line: string) => {
    text += `${line}\n`;
  };
  // Call it only while no request is in flight: if the disk behind standard output is full, the process ends.
  const flush = () => {
    process.stdout.write(text);
    text = '';
  };
  async function confirm(question: string): Promise<boolean> {
    if (!yes) {
      flush();
      if (!(await ask(question))) return false;
    }
    // An interrupted reset could lose its response.
    for (const signal of ['SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM']) process.on(signal, () => undefined);
    return true;
  }
  const { upstream } = account;
  function connect() {
    const dispatchers = createDispatchers(process.env);
    closing.add('connections', () => dispatchers.destroy());
    return { dispatcher: dispatchers.for(upstream), timeout: upstream.timeout };
  }
  const planFile = openAccountRecord(config.store, name, process.env);
  const hold = (path: string) => closing.add('lock', lock(path));
  try {
    const deps = { ...realDeps, account, connect, planFile, out, lock: hold, confirm, handOver, say };
    await (check ? checkToken : rotateToken)(deps);
  } finally {
    flush();
  }
}

export function rotateTokenCommand(): Command {
  return new Command('rotate-token')
    .description("reset an account's token; the command saves the response before it uses the new token")
    .addOption(configOption())
    .requiredOption('--account <name>', 'account whose token is reset; required')
    .option('--out <file>', 'new file for the response; default: next to the token file, or in the working directory')
    .option('--yes', 'do not ask for confirmation')
    .option(
      '--check',
      'reset nothing; report the token, its age, whether the service accepts it and whether a reset is unfinished',
    )
    .action(async (options: Options, command: Command) => {
      try {
        await withClosing(closing => run(options, command, closing));
      } catch (error) {
        if (error instanceof RotationError && error.isUsage) return command.error(`error: ${error.message}`);
        throw error;
      }
    });
}
