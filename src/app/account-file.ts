import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { replaceFile } from '../kit/durable-file.ts';
import { createPrivateFolder } from '../kit/new-file.ts';
import type { RecordedAccount } from '../model/account.ts';
import type { StoreOptions } from '../store/options.ts';

/**
 * Where a token reset leaves what it learnt of an account's plan: beside the store, because the store belongs to the
 * agent alone while that runs. The agent takes it from there into the store. Nothing in it is secret.
 */
export function accountFile({ path }: StoreOptions, account: string): string {
  return `${resolve(path)}.account-${account}.json`;
}

export function writeAccountFile(file: string, record: RecordedAccount): void {
  createPrivateFolder(dirname(file));
  // The agent may run as another user.
  replaceFile(file, `${JSON.stringify(record)}\n`, 0o644);
}

/** It can't be read; the message says which file. */
class AccountFileError extends Error {
  override readonly name = 'AccountFileError';
  readonly reason = 'store';
}

/** What is in it, unchecked; undefined when there is no such file. */
export async function readAccountFile(file: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(file, 'utf8'));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    throw new AccountFileError(`${file} can't be read: ${code ?? 'not JSON'}`);
  }
}
