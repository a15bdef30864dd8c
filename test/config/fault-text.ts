import { expect } from 'vitest';
import { ConfigError } from '../../src/config/load.ts';

/** Calls `load` and returns the message of its ConfigError. Throws if `load` accepts the configuration. */
export function faultText(load: () => unknown): string {
  try {
    load();
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as Error).message;
  }
  throw new Error(
    'the configuration was accepted, but must have errors: change the file if a new option makes it valid',
  );
}
