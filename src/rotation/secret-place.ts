import { lstatSync, readFileSync, statSync } from 'node:fs';
import { behindLinks, replaceFile } from '../kit/durable-file.ts';
import { failureOf } from '../kit/failure.ts';
import { type Env, nameOf, Secret, type SecretSetting, secretError, toToken } from '../kit/secret.ts';
import { RotationError } from './rotation-error.ts';

/** A secret and its place. */
export interface SecretPlace {
  /** For messages. */
  readonly name: string;
  readonly present: Secret;
  /** Undefined if the secret is not in a file. `real`: the file behind links; `writtenAt`: ms since the Unix epoch. */
  readonly file?: { readonly path: string; readonly real: string; readonly writtenAt: number };
}

/** Finds a secret. Throws RotationError if it is missing. `key` names the setting in messages. */
export function findSecret(setting: SecretSetting, env: Env, key: string): SecretPlace {
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
