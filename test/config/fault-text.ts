import { expect } from 'vitest';
import { ConfigError } from '../../src/config/load.ts';

/** All faults of what can't be loaded, as they are printed. */
export function faultText(load: () => unknown): string {
  try {
    load();
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as Error).message;
  }
  throw new Error('the configuration was taken for good');
}
