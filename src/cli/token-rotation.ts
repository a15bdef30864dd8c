import type { LoadedConfig } from '../config/load.ts';
import { type Closing, withClosing } from '../kit/closing.ts';
import {
  type CheckedAccount,
  checkToken as check,
  type RotateDeps,
  type RotationDeps,
  RotationError,
  rotateToken as reset,
  type TokenReport,
} from '../rotation/index.ts';
import { planFileOf } from '../store/account-file.ts';
import { StoreError } from '../store/errors.ts';
import { lockForProcess } from '../store/lock.ts';
import { createDispatchers } from '../upstream/dispatchers.ts';
import { addressesOf } from '../upstream/options.ts';

export { RotationError } from '../rotation/index.ts';

type Account = LoadedConfig['config']['accounts'][number];

function findAccount({ config, file }: LoadedConfig, name: string): Account {
  const found = config.accounts.find(account => account.name === name);
  if (found) return found;
  const names = config.accounts.map(({ name }) => name).join(', ');
  throw new RotationError(`${file} has no account '${name}'; it has ${names}`, { isUsage: true });
}

function checkedAccount(
  { config }: LoadedConfig,
  account: Account,
  env: RotationDeps['env'],
  closing: Closing,
): CheckedAccount {
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
    planFile: planFileOf(config.store, name, env),
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

/** Checks the token of a configured account, and changes nothing. Throws RotationError. */
export function checkToken(loaded: LoadedConfig, name: string, deps: RotationDeps): Promise<TokenReport> {
  return withClosing(async closing =>
    check(checkedAccount(loaded, findAccount(loaded, name), deps.env, closing), deps),
  );
}

/** Resets the token of a configured account. Throws RotationError with what happened and what to do. */
export function rotateToken(loaded: LoadedConfig, name: string, deps: RotateDeps): Promise<void> {
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
    await reset({ ...checked, management: operation, actionToken, lock: hold }, deps);
  });
}
