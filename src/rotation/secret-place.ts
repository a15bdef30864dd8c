import { readFileSync } from 'node:fs';
import { behindLinks, replaceFile } from '../kit/durable-file.ts';
import { type Env, type Secret, type SecretSetting, secretError, toToken } from '../kit/secret.ts';
import { codeOf, RotationError } from './rotation-error.ts';

export interface SecretPlace {
  readonly name: string;
  /** The configured file and the target of its links; undefined if the secret is not in a file. */
  readonly file: { readonly path: string; readonly real: string } | undefined;
  readonly present: Secret;
  /** Replaces only the secret in its file. */
  replace(next: Secret): void;
  /** Replaces the file with an identical copy, to test permissions, space and mount. Throws RotationError if that fails. */
  rehearse(): void;
}

/** Returns where a secret is stored, for use in messages. `key` names the setting. */
export function nameOf(setting: SecretSetting, key: string): string {
  if ('file' in setting) return setting.file;
  return 'env' in setting ? `the environment variable ${setting.env}` : `${key} in the configuration`;
}

/** Finds a secret and its file. Throws RotationError if the secret is missing. `key` names the setting in messages. */
export function findSecret(setting: SecretSetting, env: Env, key: string): SecretPlace {
  const broken = (why: string) => new RotationError(`${key}: ${why}; nothing was sent`, { isUsage: true });
  if (!('file' in setting)) {
    const wrong = secretError(setting, env);
    if (wrong) throw broken(wrong);
    const present = 'literal' in setting ? setting.literal : (toToken(env[setting.env] ?? '') as Secret);
    const never = () => {
      throw new Error(`${key} is in no file`);
    };
    return { name: nameOf(setting, key), file: undefined, present, replace: never, rehearse: never };
  }
  const path = setting.file;
  const read = () => readFileSync(path, 'utf8');
  let present: Secret | undefined;
  let real: string;
  try {
    real = behindLinks(path);
    present = toToken(read());
  } catch (error) {
    throw broken(`${path} can't be read (${codeOf(error)})`);
  }
  if (!present) throw broken(`${path} must contain visible ASCII characters, without spaces`);
  return {
    name: real === path ? path : `${path} (a link to ${real}, which is replaced)`,
    file: { path, real },
    present,
    replace(next) {
      const text = read();
      // Keep a trailing newline. The replacement is a function, because `$` is special in replacement text.
      replaceFile(path, text.trim() === '' ? next.reveal() : text.replace(text.trim(), () => next.reveal()));
    },
    rehearse() {
      try {
        replaceFile(path, read());
      } catch (error) {
        throw notReplaceable(path, codeOf(error));
      }
    },
  };
}

export function notReplaceable(path: string, why: string): RotationError {
  return new RotationError(
    `${path} can't be replaced (${why}): its folder must be writable, and the file must not be a mount. Nothing was sent. With --out FILE the new credentials go to a file in another folder, and you put them in place`,
  );
}
