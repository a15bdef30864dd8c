import { type Emulator, type EmulatorOptions, startEmulator } from '../../src/emulator/server.ts';
import { afterThisTest } from './client.ts';

/** Starts an emulated service that is closed after the test. */
export async function emulate(options: EmulatorOptions = {}): Promise<Emulator> {
  const emulator = await startEmulator(options);
  afterThisTest(() => emulator.close());
  return emulator;
}

/** Starts an emulated service without history and workload. It contains only data that the test adds. */
export const emulateEmpty = (options: EmulatorOptions = {}): Promise<Emulator> =>
  emulate({ history: 0, workload: false, dlqEntries: 0, ...options });
