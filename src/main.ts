import { setFlagsFromString } from 'node:v8';

/** Commands that run for months on shared machines. The others exit quickly. */
const LONG_RUNNING = ['serve', 'demo'];

/**
 * V8 flags of long-running commands, which save memory. Numbers: RSS after one or two minutes of traffic, without and with the
 * flag; median of up to three simultaneous runs with Node.js 24.21 on x64.
 */
const V8_FLAGS = [
  // Old-generation garbage is collected when the heap has grown by 60 %. No effect with one account; 312 → 273 MiB with 100
  // accounts, measured while the young generation could not grow.
  '--heap-growing-percent=60',
  // Both together keep V8 from optimizing undici's HTTP parser: the optimization takes memory that the allocator retains. 119 →
  // 107 MiB; either one alone has no effect.
  '--no-wasm-tier-up',
  '--no-wasm-dynamic-tiering',
];

const [, , command = ''] = process.argv;
// Without a handler, SIGHUP ends the process, and systemd considers that a clean exit. `serve` installs its own handlers.
if (command === 'serve') {
  process.on('SIGHUP', () => {});
  for (const signal of ['SIGTERM', 'SIGINT']) {
    process.once(signal, () => process.listenerCount(signal) === 0 && process.exit());
  }
}
if (LONG_RUNNING.includes(command)) for (const flag of V8_FLAGS) setFlagsFromString(flag);
// Collects garbage earlier: the peak RSS of `list` with 100,000 rows falls from 230 to 157 MiB. With one row, it is 120 MiB.
if (command === 'list') setFlagsFromString('--optimize-for-size');
import('./cli/cli.ts')
  .then(({ runCli }) => runCli(process.argv.slice(2)))
  .then(code => {
    process.exitCode = code;
  });
