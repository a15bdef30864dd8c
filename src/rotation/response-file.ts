import { lstatSync, readFileSync, readlinkSync, statSync, symlinkSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { createAppendFile, mayBePlanted, removeFile, syncFolder } from '../kit/durable-file.ts';
import { failureOf } from '../kit/failure.ts';
import { RotationError } from './rotation-error.ts';

/** A started reset and its response. */
export interface StartedReset {
  /** The response file. */
  readonly record: string;
  /** Milliseconds since the Unix epoch. */
  readonly startedAt: number;
  readonly bytes: Buffer;
  /** Why the response file does not contain all `bytes`. */
  readonly failure?: string | undefined;
}

/** Space that the response file must have before the request (bytes). A response takes about 1,000. */
const NEEDED = 64 * 1024;

/** Finds an unfinished reset. `mark`: the link to its response file. Throws if the files cannot be read. */
export function findReset(mark: string): StartedReset | undefined {
  const found = lstatSync(mark, { throwIfNoEntry: false });
  if (!found) return undefined;
  const record = resolve(dirname(mark), readlinkSync(mark));
  if ([mark, record].some(mayBePlanted)) throw new RotationError(`${mark}: another user created it; nothing was sent`);
  const bytes = statSync(record, { throwIfNoEntry: false }) ? readFileSync(record) : Buffer.alloc(0);
  return { record, startedAt: found.mtimeMs, bytes };
}

/** Removes files if possible. A mark that remains only makes the next run finish the reset again. */
export function forget(...files: readonly string[]): void {
  for (const file of files) failureOf(() => removeFile(file));
}

/** Creates the response file, and the mark that links to it until the reset is finished. Throws RotationError. */
export function createResponseFile(record: string, mark: string): ReturnType<typeof createAppendFile> {
  let file: ReturnType<typeof createAppendFile> | undefined;
  const failure = failureOf(() => {
    file = createAppendFile(record, NEEDED);
    // A relative link stays valid if another container mounts the folder elsewhere.
    symlinkSync(relative(dirname(mark), record), mark);
    syncFolder(dirname(mark));
  });
  if (file && !failure) return file;
  if (file) forget(mark, record);
  const why =
    failure === 'EEXIST'
      ? 'already exists and is never overwritten; nothing was sent'
      : `can't be written (${failure}); nothing was sent. --out FILE names another file for the new credentials`;
  throw new RotationError(`${record} ${why}`);
}
