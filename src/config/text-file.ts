import { isUtf8 } from 'node:buffer';
import { readFileSync, statSync } from 'node:fs';
import { whyNotRead } from '../kit/regular-file.ts';
import { ENVIRONMENT, environmentText } from './default-file.ts';
import { ConfigError } from './errors.ts';

/** Matches the first bytes of UTF-16 and UTF-32, in hexadecimal: a byte order mark, or an ASCII character. */
const UTF_16 = /^(?:fffe|feff|0000feff|(?!00)..00|00(?!00)..|000000(?!00)..)/;

/** Creates an error without content of the file in its message. `before`: the text before the error's place. */
function faultIn(file: string, message: string, before = ''): ConfigError {
  const lines = before.split('\n');
  return new ConfigError([{ file, line: lines.length, column: `${lines.at(-1)}`.length + 1, path: '', message }]);
}

/** Reads a file. Throws ConfigError if it cannot be read or, with `maxBytes`, is not a regular file of at most this size. */
export function readBytes(file: string, maxBytes?: number): Buffer {
  let why: string | undefined;
  try {
    why = maxBytes === undefined ? undefined : whyNotRead(statSync(file), maxBytes);
    if (why === undefined) return readFileSync(file);
  } catch (error) {
    const { code = 'error' } = error as NodeJS.ErrnoException;
    throw faultIn(file, code === 'ENOENT' ? 'does not exist' : `can't be read: ${code}`);
  }
  throw faultIn(file, `can't be read: ${why}`);
}

/** Reads a text file, or the configuration in the environment. Throws ConfigError if it cannot be read or is not UTF-8. */
export function readText(file: string, maxBytes?: number): string {
  if (file === ENVIRONMENT) return environmentText(process.env);
  const bytes = readBytes(file, maxBytes);
  if (UTF_16.test(bytes.toString('hex', 0, 4))) throw faultIn(file, 'is UTF-16 or UTF-32: save it as UTF-8');
  const text = bytes.toString();
  if (isUtf8(bytes)) return text;
  const message = 'has a character that is not UTF-8: save the file as UTF-8, not as ISO 8859-1 or Windows-1252';
  throw faultIn(file, message, text.slice(0, text.indexOf('\u{fffd}')));
}

/** Returns the result of a read, or why it failed. */
export function tryRead<T>(read: () => T): { readonly content: T } | { readonly wrong: string } {
  try {
    return { content: read() };
  } catch (error) {
    return { wrong: error instanceof ConfigError ? `${error.errors[0]?.message}` : String(error) };
  }
}
