import { setFlagsFromString } from 'node:v8';

const [, , command = ''] = process.argv;
// Without a handler, SIGHUP ends the process, and systemd considers that a clean exit. `serve` installs its own handlers.
if (command === 'serve') {
  process.on('SIGHUP', () => {});
  for (const signal of ['SIGTERM', 'SIGINT']) {
    process.once(signal, () => process.listenerCount(signal) === 0 && process.exit());
  }
}
// Collects garbage earlier: the peak RSS of `list` with 100,000 rows falls from 230 to 157 MiB. With one row, it is 120 MiB.
if (command === 'list') setFlagsFromString('--optimize-for-size');
import('./cli/cli.ts')
  .then(({ runCli }) => runCli(process.argv.slice(2)))
  .then(code => {
    process.exitCode ||= code;
  });
