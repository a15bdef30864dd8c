import { lstatSync, readFileSync, readlinkSync, statSync, symlinkSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import {
  behindLinks,
  createAppendFile,
  mayBePlanted,
  removeFile,
  replaceFile,
  syncFolder,
} from '../kit/durable-file.ts';
import { failureOf } from '../kit/failure.ts';
import { type Env, nameOf, Secret, type SecretSetting, secretError, toToken } from '../kit/secret.ts';

/** Why a token was not reset, or may not have been, and what to do. Contains no secret. */
export class RotationError extends Error {
  override readonly name = 'RotationError';
  /** Whether the command line or configuration is wrong, so that no request was sent. */
  readonly isUsage: boolean;

  constructor(message: string, isUsage = false) {
    super(message);
    this.isUsage = isUsage;
  }
}

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

/** Free space required for the response file before the request (bytes). A response has about 1,000 bytes. */
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

/** Removes files if possible. If a mark remains, the next run settles the same reset again. */
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

/**
 * Finds a secret. Throws RotationError if it is missing. `key` and the returned `name` are for messages. `file`: undefined if the
 * secret is not in a file; `real`: the file behind links; `writtenAt`: ms since the Unix epoch.
 */
export function findSecret(setting: SecretSetting, env: Env, key: string) {
  const broken = (why: string) => new RotationError(`${key}: ${why}; nothing was sent`, true);
  if (!('file' in setting)) {
    const wrong = secretError(setting, env);
    if (wrong) throw broken(wrong);
    const present = 'literal' in setting ? setting.literal : new Secret(env[setting.env]?.trim() ?? '');
    return { name: nameOf(setting, key), present };
  }
  const path = setting.file;
  let [real, text] = ['', ''];
  const failure = failureOf(() => {
    real = behindLinks(path);
    text = readFileSync(path, 'utf8');
  });
  if (failure) throw broken(`${path} can't be read (${failure})`);
  const present = toToken(text);
  if (!present) throw broken(`${path} must contain visible ASCII characters, without spaces`);
  const name = lstatSync(path).isSymbolicLink() ? `${path} (a link to ${real}, which is replaced)` : path;
  return { name, present, file: { path, real, writtenAt: statSync(real).mtimeMs } };
}

/** Replaces only the secret in a file, and keeps the white space around it. Throws system errors. */
export function replaceSecret(path: string, next: Secret): void {
  const text = readFileSync(path, 'utf8');
  // The replacement is a function, because `$` is special in replacement text.
  replaceFile(path, text.trim() === '' ? next.reveal() : text.replace(text.trim(), () => next.reveal()));
}
