import { Command, CommanderError } from 'commander';
import { version } from '../app/version.ts';
import { ConfigError } from '../config/load.ts';
import { printable } from '../kit/text.ts';
import { autoCancelCommand } from './auto-cancel.ts';
import { checkConfigCommand } from './check-config.ts';
import { demoCommand } from './demo.ts';
import { emulateCommand } from './emulate.ts';
import { planCommand } from './plan.ts';
import { rotateTokenCommand } from './rotate-token.ts';
import { rulesCommand } from './rules.ts';
import { serveCommand } from './serve.ts';
import { snapshotCommand } from './snapshot.ts';

/** Runs one command line. Gives the exit code: 0 done, 1 the work failed, 2 bad usage or configuration. */
export async function runCli(argv: readonly string[]): Promise<number> {
  // The reader of our output may be gone; that is no reason to end.
  for (const output of [process.stdout, process.stderr]) {
    output.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'EPIPE' && error.code !== 'EIO') throw error;
    });
  }
  const program = new Command('delivery-watch')
    .description('Prometheus exporter and alerting agent for a hosted message-delivery service')
    .version(version)
    .exitOverride();
  const commands = [
    serveCommand(),
    snapshotCommand(),
    planCommand(),
    demoCommand(),
    emulateCommand(),
    checkConfigCommand(),
    autoCancelCommand(),
    rulesCommand(),
    rotateTokenCommand(),
  ];
  for (const command of commands) {
    program.addCommand(command.copyInheritedSettings(program));
  }
  try {
    await program.parseAsync(argv, { from: 'user' });
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    const message = error instanceof Error ? error.message : String(error);
    process.stderr.write(`${message.split('\n').map(printable).join('\n')}\n`);
    return error instanceof ConfigError ? 2 : 1;
  }
}
