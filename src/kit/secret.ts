import { createHash } from 'node:crypto';
import { inspect } from 'node:util';

const REDACTED = '<secret>';

/** A value that prints as `<secret>` in every way there is to print it; only `reveal()` gives it. */
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

/** Tells one long random secret from another, and shows nothing of it: the first 48 bits of its SHA-256. */
export function fingerprint(secret: Secret): string {
  return `sha256:${createHash('sha256').update(secret.reveal()).digest('hex').slice(0, 12)}`;
}
