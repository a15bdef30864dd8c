import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { EmulatorOptions } from '../../src/emulator/server.ts';
import { fingerprint, Secret } from '../../src/kit/secret.ts';
import { mainFile } from '../support/bundle.ts';
import { runCli, startCli } from '../support/cli.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { newFolder } from '../support/folder.ts';

const ENDPOINT = 'POST /svc/user/rotatetoken';

export const print = (text: string) => fingerprint(new Secret(text));

/** Account settings with a short timeout, for responses that never arrive. */
export const HANGING = { upstream: { timeout: '4s' } };

interface RotationOptions {
  /** Source of the secrets in the configuration; default: files. */
  readonly token?: object | string;
  readonly password?: object | string;
  /** Additional settings of the account. */
  readonly account?: object;
  readonly config?: object;
  /** Base URL in the account's `management` section; default: the emulator's URL. */
  readonly managementUrl?: string;
  readonly emulator?: EmulatorOptions;
}

/**
 * Starts an emulator and writes the account's secret files and configuration. Returns functions that run the command with them.
 */
export async function startRotation(options: RotationOptions = {}) {
  const emulator = await emulateEmpty({ ...options.emulator });
  const folder = newFolder();
  const secrets = join(folder, 'secrets');
  mkdirSync(secrets);
  const [tokenFile, passwordFile] = [join(secrets, 'token'), join(secrets, 'password')];
  const first = emulator.token;
  const { username, password } = emulator.credentials.login;
  writeFileSync(tokenFile, `${first}\n`, { mode: 0o640 });
  writeFileSync(passwordFile, password);
  const configFile = join(folder, 'config.yaml');
  const configure = ({ token, password, account, config, managementUrl }: RotationOptions) =>
    writeFileSync(
      configFile,
      JSON.stringify({
        store: { path: join(folder, 'data', 'watch.db') },
        accounts: [
          {
            name: 'acme',
            baseUrl: emulator.url,
            token: token ?? { file: tokenFile },
            management: {
              baseUrl: managementUrl ?? emulator.url,
              username,
              password: password ?? { file: passwordFile },
            },
            // Long enough for a busy machine. `HANGING` overrides it.
            upstream: { timeout: '5m' },
            ...account,
          },
        ],
        ...config,
      }),
    );
  configure(options);
  const args = (more: readonly string[]) => ['rotate-token', '--config', configFile, '--account', 'acme', ...more];
  /**
   * Returns environment variables that kill the process at a file operation, or make that operation fail; see
   * support/crash.ts.
   */
  const crash = (how: { at?: number; fail?: string; trace?: string }) => ({
    NODE_OPTIONS: `--import=${new URL('../support/crash.ts', import.meta.url)}`,
    CRASH_FOLDER: secrets,
    ...(how.at === undefined ? {} : { CRASH_AT: String(how.at) }),
    ...(how.fail === undefined ? {} : { CRASH_FAIL: how.fail }),
    ...(how.trace === undefined ? {} : { CRASH_TRACE: how.trace }),
  });
  return {
    emulator,
    folder,
    secrets,
    tokenFile,
    passwordFile,
    configFile,
    first,
    password,
    configure,
    crash,
    run: (
      more: readonly string[] = ['--yes'],
      env: Readonly<Record<string, string>> = {},
      wrap: readonly string[] = [],
    ) => runCli(args(more), env, wrap),
    start: (
      more: readonly string[] = ['--yes'],
      env: Readonly<Record<string, string>> = {},
      wrap: readonly string[] = [],
    ) => startCli(args(more), env, wrap),
    fault: (fault: object) => emulator.faults.replace([{ endpoint: ENDPOINT, ...fault }]),
    resets: () => emulator.credentials.resets,
    /** Returns the token in the file, without the trailing newline. */
    token: () => readFileSync(tokenFile, 'utf8').trim(),
    /** Returns the files that contain a stored response. */
    records: () =>
      readdirSync(secrets)
        .filter(name => name.includes('.rotated-'))
        .map(name => join(secrets, name)),
    names: () => readdirSync(secrets).sort(),
  };
}

/** Runs the command on a terminal, with standard output and standard error in files next to the configuration. */
export async function runOnTerminal(configFile: string, account: string, env: Readonly<Record<string, string>>) {
  const command = [process.execPath, mainFile(), 'rotate-token', '--config', configFile, '--account', account, '--yes'];
  const [out, err] = [`${configFile}.out`, `${configFile}.err`];
  // script(1), which provides the terminal, is in one of Debian's essential packages.
  const child = spawn('script', ['-qec', `${command.join(' ')} >${out} 2>${err}`, '/dev/null'], {
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let terminal = '';
  child.stdout.on('data', chunk => {
    terminal += chunk;
  });
  const [code] = await once(child, 'close');
  return { code, terminal, stdout: readFileSync(out, 'utf8'), stderr: readFileSync(err, 'utf8') };
}

export type Rotation = Awaited<ReturnType<typeof startRotation>>;
