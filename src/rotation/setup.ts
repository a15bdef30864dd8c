import { accessSync, constants } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { accountFile } from '../app/account-file.ts';
import { createDispatchers } from '../app/dispatchers.ts';
import type { LoadedConfig } from '../config/load.ts';
import type { Clock } from '../kit/clock.ts';
import type { Closing } from '../kit/closing.ts';
import { StoreError } from '../store/errors.ts';
import { lockForProcess } from '../store/lock.ts';
import { addressesOf } from '../upstream/options.ts';
import { createRotator, type Rotator } from '../upstream/rotator.ts';
import { resetMark } from '../upstream/token.ts';
import { createTokenCheck, type TokenCheck } from '../upstream/token-check.ts';
import { codeOf, RotationError } from './rotation-error.ts';
import { findSecret, nameOf, notReplaceable, type SecretPlace } from './secret-place.ts';

export interface RotationRequest {
  /** Name of the account. */
  readonly account: string;
  /** Where the answer goes, where that is not beside the token. */
  readonly out?: string | undefined;
}

export interface RotationDeps {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  readonly random: () => number;
}

/** What is known of an account's token without asking anybody. */
export interface TokenSetup {
  readonly account: string;
  readonly token: SecretPlace;
  readonly check: TokenCheck;
  /** Stands there while a reset is unfinished. */
  readonly intentFile: string;
  /** Where what a reset tells of the account is left for the agent. */
  readonly accountFile: string;
}

/** All that resetting takes. */
export interface RotationSetup extends TokenSetup {
  readonly out: string | undefined;
  readonly managementUrl: string;
  readonly password: SecretPlace;
  /** Where another token for acting is, which a reset makes void too; undefined when there is none. */
  readonly actionToken: string | undefined;
  readonly rotator: Rotator;
  /** Where the answer will go, if it is asked for at `now` (milliseconds since the Unix epoch). */
  newRecord(now: number): string;
}

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function findAccount({ config, file }: LoadedConfig, name: string): LoadedConfig['config']['accounts'][number] {
  const found = config.accounts.find(account => account.name === name);
  if (found) return found;
  const names = config.accounts.map(({ name }) => name).join(', ');
  throw new RotationError(`${file} has no account '${name}'; it has ${names}`, { isUsage: true });
}

/** Beside the token where that can be written, else in the folder of `out`, else in the working folder. */
function intentFileOf({ file }: SecretPlace, { account, out }: RotationRequest): string {
  if (file && isWritable(dirname(file.real))) return resetMark(file.real);
  return resetMark(join(out === undefined ? process.cwd() : dirname(resolve(out)), account));
}

/** Throws RotationError where the configuration is not enough. `closing` learns what to close. */
export function prepareCheck(
  loaded: LoadedConfig,
  request: RotationRequest,
  { env, clock, random }: RotationDeps,
  closing: Closing,
): TokenSetup {
  const account = findAccount(loaded, request.account);
  const token = findSecret(account.token, env, `the token of ${account.name}`);
  const dispatchers = createDispatchers(env);
  closing.add('connections', () => dispatchers.destroy());
  return {
    account: account.name,
    token,
    check: createTokenCheck({
      addresses: addressesOf(account),
      dispatcher: dispatchers.for(account.upstream),
      timeout: account.upstream.timeout,
      clock,
      random,
    }),
    intentFile: intentFileOf(token, request),
    accountFile: accountFile(loaded.config.store, account.name),
  };
}

/** Keeps other runs from the same reset. */
function lock(intentFile: string): () => void {
  try {
    return lockForProcess(intentFile);
  } catch (error) {
    if (error instanceof StoreError && error.reason === 'locked') {
      throw new RotationError('another rotate-token of this account is running; nothing was sent');
    }
    throw new RotationError(
      `${dirname(intentFile)} can't be written (${codeOf(error)}); nothing was sent. --out FILE names a file in another folder`,
    );
  }
}

/** As `prepareCheck`, and sees to it that nobody else resets the token meanwhile. */
export function prepareReset(
  loaded: LoadedConfig,
  request: RotationRequest,
  deps: RotationDeps,
  closing: Closing,
): RotationSetup {
  const { management, upstream, actionToken } = findAccount(loaded, request.account);
  if (!management) {
    throw new RotationError(
      `${loaded.file}: ${request.account} has no management section; rotate-token needs { baseUrl, username, password } there`,
      { isUsage: true },
    );
  }
  const setup = prepareCheck(loaded, request, deps, closing);
  const { account, token } = setup;
  const password = findSecret(management.password, deps.env, `the management password of ${account}`);
  const out = request.out === undefined ? undefined : resolve(request.out);
  for (const { file } of [token, password]) {
    if (file && out === undefined && !isWritable(dirname(file.real))) throw notReplaceable(file.path, 'not writable');
  }
  closing.add('lock', lock(setup.intentFile));
  const dispatchers = createDispatchers(deps.env);
  closing.add('connections to the account management', () => dispatchers.destroy());
  return {
    ...setup,
    out,
    managementUrl: management.baseUrl,
    password,
    actionToken: actionToken ? nameOf(actionToken, `the action token of ${account}`) : undefined,
    rotator: createRotator({
      ...management,
      password: password.present,
      dispatcher: dispatchers.for(upstream),
      timeout: upstream.timeout,
    }),
    newRecord(now) {
      const time = new Date(now).toISOString().replaceAll(/[-:]/g, '');
      return out ?? `${resolve(token.file?.path ?? account)}.rotated-${time}.json`;
    },
  };
}
