import { existsSync, mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { replaceFile, reserveFile, syncFolder } from '../kit/durable-file.ts';
import { codeOf, RotationError } from './rotation-error.ts';

/** Disk space reserved before a request (bytes). A response takes about 1,000. */
const RESERVED = 64 * 1024;

export function probe(record: string): void {
  try {
    reserveFile(record, RESERVED).discard();
  } catch (error) {
    const code = codeOf(error);
    throw new RotationError(
      code === 'EEXIST'
        ? `${record} already exists and is never overwritten; nothing was sent`
        : `${record}, the file for the new credentials, can't be written (${code}); nothing was sent. --out FILE names another`,
    );
  }
}

export type Keeper = ReturnType<typeof createKeeper>;

/** Creates the response file and reserves its disk space. Throws if that fails. */
export function createKeeper(record: string) {
  const chunks: Buffer[] = [];
  const file = reserveFile(record, RESERVED);
  let failure: unknown;
  const attempt = (work: () => void) => {
    try {
      if (failure === undefined) work();
    } catch (error) {
      failure = error;
    }
  };
  return {
    keep(bytes: Buffer): void {
      chunks.push(bytes);
      attempt(() => file.append(bytes));
    },
    /** Returns the response and its file, which is in the temporary folder if the reserved file could not be written. */
    end(): { readonly bytes: Buffer; readonly record: string } {
      const bytes = Buffer.concat(chunks);
      attempt(() => file.complete());
      if (failure === undefined) return { bytes, record };
      failure = undefined;
      let other = record;
      attempt(() => {
        // In the shared temporary folder, another user may already have created a file with this name.
        const path = join(mkdtempSync(join(tmpdir(), 'delivery-watch-')), basename(record));
        replaceFile(path, bytes);
        syncFolder(tmpdir());
        other = path;
      });
      return { bytes, record: other };
    },
  };
}

/** Returns the response stored by an earlier run, without the spaces that reserve disk space. */
export function received(record: string): Buffer {
  if (!existsSync(record)) return Buffer.alloc(0);
  const bytes = readFileSync(record);
  return bytes.subarray(0, bytes.findLastIndex(byte => byte !== 0x20) + 1);
}
