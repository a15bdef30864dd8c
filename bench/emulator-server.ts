/**
 * Runs the emulator in a separate process. Its argument contains the options as JSON. Sends its URL and tokens to its parent,
 * and exits when the parent exits.
 */
import type { FaultSeed } from '../src/emulator/faults.ts';
import { startEmulator } from '../src/emulator/server.ts';

interface Options {
  readonly spread?: number;
  /** Faults by account. */
  readonly faultsOf?: readonly (readonly FaultSeed[])[];
}

const { spread = 0, faultsOf = [], ...options } = JSON.parse(process.argv[2] ?? '{}') as Options;
const emulator = await startEmulator(options);
for (const [index, faults] of faultsOf.entries())
  if (faults.length > 0) emulator.accounts[index]?.faults.replace(faults);
// Add dead letters at regular intervals over the last two days.
const [now, over] = [emulator.clock.now(), 48 * 3_600_000];
for (let index = 0; index < spread; index += 1) {
  const enteredAt = now - over + Math.floor((index * over) / spread);
  emulator.state.addDlqEntry({ enteredAt, createdAt: enteredAt - 5000 - ((index * 7919) % 600_000) });
}
process.send?.({ url: emulator.url, token: emulator.token, tokens: emulator.accounts.map(({ token }) => token) });
process.on('disconnect', () => process.exit());
