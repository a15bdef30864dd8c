import { readFileSync } from 'node:fs';
import { mayBePlanted, replaceFile } from '../kit/durable-file.ts';
import { codeOf, RotationError } from './rotation-error.ts';

/** Content of the file that is written before a reset is requested, and removed when the reset is finished. */
export interface Intent {
  readonly startedAt: string;
  readonly account: string;
  readonly token: string;
  /** Whether the service accepted the token before the reset. */
  readonly worked: boolean;
  readonly record: string;
}

export function writeIntent(file: string, intent: Intent): void {
  replaceFile(file, `${JSON.stringify(intent)}\n`);
}

/** Reads the intent of an unfinished reset; undefined if the file is missing. Throws RotationError if it cannot be read. */
export function readIntent(file: string): Intent | undefined {
  try {
    if (mayBePlanted(file)) throw new Error('another user created it');
    return JSON.parse(readFileSync(file, 'utf8')) as Intent;
  } catch (error) {
    const code = codeOf(error);
    if (code === 'ENOENT') return undefined;
    throw new RotationError(
      `${file} records an unfinished reset but can't be read (${error instanceof SyntaxError ? 'not JSON' : code}): check whether the token works and whether a file *.rotated-*.json holds a new one, then remove it`,
    );
  }
}
