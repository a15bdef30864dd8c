import { accessSync, constants } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import type { Clock } from '../kit/clock.ts';
import type { Env, SecretSetting } from '../kit/secret.ts';
import type { RecordedAccount } from '../model/account.ts';
import { type Addresses, type Connection, createRotator, createTokenCheck, resetMark } from '../upstream/rotator.ts';
import { codeOf, RotationError } from './rotation-error.ts';
import { findSecret, nameOf, notReplaceable, type SecretPlace } from './secret-place.ts';

/** File with the plan limits from the last reset, which the agent reads. */
export interface PlanFile {
  readonly path: string;
  /** Returns the unvalidated content; undefined if the file does not exist. Rejects if it cannot be read. */
  read(): Promise<unknown>;
  write(record: RecordedAccount): Promise<void>;
}

export interface TokenAccount {
  readonly name: string;
  readonly token: SecretSetting;
  readonly addresses: Addresses;
  /** Opens new connections, because requests of a reset must not reuse open ones. */
  connect(): Connection;
  readonly planFile: PlanFile;
}

export interface ResetAccount extends TokenAccount {
  readonly actionToken: SecretSetting | null;
  readonly management: {
    readonly baseUrl: string;
    readonly path: string;
    readonly username: string;
    readonly password: SecretSetting;
  };
  /** Locks a path for this command. Throws RotationError if another process has the lock. */
  lock(path: string): void;
}

export interface RotationDeps {
  readonly env: Env;
  readonly clock: Clock;
  readonly random: () => number;
  /** File for the response; default: next to the token. */
  readonly out?: string | undefined;
}

export type TokenSetup = ReturnType<typeof prepareCheck>;

export type RotationSetup = ReturnType<typeof prepareReset>;

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** Returns the intent's path: next to the token if possible, else in the folder of `out` or the working directory. */
function intentFileOf({ file }: SecretPlace, account: string, out: string | undefined): string {
  if (file && isWritable(dirname(file.real))) return resetMark(file.real);
  return resetMark(join(out === undefined ? process.cwd() : dirname(resolve(out)), account));
}

export function prepareCheck(account: TokenAccount, { env, clock, random, out }: RotationDeps) {
  const { name, addresses, planFile } = account;
  const token = findSecret(account.token, env, `the token of ${name}`);
  return {
    account: name,
    token,
    check: createTokenCheck({ ...account.connect(), addresses, clock, random }),
    intentFile: intentFileOf(token, name, out),
    planFile,
  };
}

function lock(account: ResetAccount, intentFile: string): void {
  try {
    account.lock(intentFile);
  } catch (error) {
    if (error instanceof RotationError) throw error;
    throw new RotationError(
      `${dirname(intentFile)} can't be written (${codeOf(error)}); nothing was sent. --out FILE names a file in another folder`,
    );
  }
}

/** Prepares a reset like `prepareCheck`, and locks it against other runs. */
export function prepareReset(account: ResetAccount, deps: RotationDeps) {
  const { name, management, actionToken } = account;
  const setup = prepareCheck(account, deps);
  const { token } = setup;
  const password = findSecret(management.password, deps.env, `the management password of ${name}`);
  const out = deps.out === undefined ? undefined : resolve(deps.out);
  for (const { file } of [token, password]) {
    if (file && out === undefined && !isWritable(dirname(file.real))) throw notReplaceable(file.path, 'not writable');
  }
  lock(account, setup.intentFile);
  return {
    ...setup,
    out,
    managementUrl: management.baseUrl,
    password,
    /** Name of the separate action token, if configured: a reset also revokes it. */
    actionToken: actionToken ? nameOf(actionToken, `the action token of ${name}`) : undefined,
    rotator: createRotator({ ...management, ...account.connect(), password: password.present }),
    /** Returns the file for the response. `now`: time of the request (ms since the Unix epoch). */
    newRecord(now: number): string {
      const time = new Date(now).toISOString().replaceAll(/[-:]/g, '');
      return out ?? `${resolve(token.file?.path ?? name)}.rotated-${time}.json`;
    },
  };
}
