import { expect } from 'vitest';
import { ConfigError } from '../../src/config/load.ts';

/** Returns all faults of an invalid configuration as printed. */
export function faultText(load: () => unknown): string {
  try {
    load();
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as Error).message;
  }
  throw new Error('the configuration was accepted');
}
