import { hash } from 'node:crypto';
import { inspect } from 'node:util';
import { z } from 'zod';

export type Env = Readonly<Record<string, string | undefined>>;

const REDACTED = '<secret>';

/** A secret text that prints as `<secret>`; only `reveal()` returns the value. */
export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return REDACTED;
  }

  toJSON(): string {
    return REDACTED;
  }

  [inspect.custom](): string {
    return REDACTED;
  }
}

/** Returns 48 bits of a secret's SHA-256, which do not reveal a long random secret. */
export const fingerprint = (secret: Secret): string => `sha256:${hash('sha256', secret.reveal()).slice(0, 12)}`;

/** Trims a token or password. Returns undefined if a header cannot contain it. */
export function toToken(text: string): Secret | undefined {
  const trimmed = text.trim();
  return /^[\x21-\x7e]+$/.test(trimmed) ? new Secret(trimmed) : undefined;
}

const NO_TOKEN = 'must be visible ASCII characters, without spaces';

/** A literal is wrapped, so that printing the configuration does not reveal it. */
export const secret = z
  .union([z.strictObject({ env: z.string().min(1) }), z.strictObject({ file: z.string().min(1) }), z.string().min(1)], {
    error: 'must be { env: NAME }, { file: PATH } or the secret itself as text',
  })
  .transform((value, context) => {
    if (typeof value !== 'string') return value;
    const literal = toToken(value);
    if (literal) return { literal };
    context.addIssue(NO_TOKEN);
    return z.NEVER;
  });

export type SecretSetting = z.output<typeof secret>;

/** Returns where a secret is stored, for messages. `key` names the setting. */
export function nameOf(setting: SecretSetting, key: string): string {
  if ('file' in setting) return setting.file;
  return 'env' in setting ? `the environment variable ${setting.env}` : `${key} in the configuration`;
}

/** Returns why an environment variable cannot be used, or undefined. `wrongIn`: describes the error in its text. */
export function envError(name: string, env: Env, wrongIn: (text: string) => string | undefined) {
  const text = env[name]?.trim();
  const wrong = text ? wrongIn(text) : 'is not set';
  return wrong && `the environment variable ${name} ${wrong}`;
}

/** Returns why an environment variable is not a usable secret, or undefined. Does not check files. */
export const secretError = (setting: SecretSetting, env: Env): string | undefined =>
  'env' in setting ? envError(setting.env, env, text => (toToken(text) ? undefined : NO_TOKEN)) : undefined;

const PRINTABLE = /^[\t\x20-\x7e]*$/;
const NOT_PRINTABLE = 'must be printable ASCII characters';

/** Literals become secrets, because most headers contain keys. */
const headerValue = z.union(
  [
    z.strictObject({ env: z.string().min(1) }),
    z
      .string()
      .regex(PRINTABLE, { error: NOT_PRINTABLE })
      .transform(text => new Secret(text)),
  ],
  { error: 'must be { env: NAME } or the value itself as text of printable ASCII characters' },
);

export type HeaderSetting = z.output<typeof headerValue>;

export const headerSettings = z
  .record(z.string().regex(/^[\w!#$%&'*+.^`|~-]+$/, { error: 'must be the name of a header' }), headerValue)
  .default({});

export const headerText = (value: HeaderSetting, env: Env): string =>
  value instanceof Secret ? value.reveal() : (env[value.env]?.trim() ?? '');

/** Returns why a header cannot be sent, or undefined. */
export const headerError = (setting: HeaderSetting, env: Env): string | undefined =>
  setting instanceof Secret
    ? undefined
    : envError(setting.env, env, text => (PRINTABLE.test(text) ? undefined : NOT_PRINTABLE));
