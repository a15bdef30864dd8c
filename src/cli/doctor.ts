import { Command } from 'commander';
import { endWithin } from '../kit/clock.ts';
import { printable, printableJson, someOf } from '../kit/text.ts';
import { configOption } from './config-option.ts';
import { examine } from './doctor/doctor.ts';
import type { CheckLine } from './doctor/probe.ts';
import { realDeps } from './read-alone.ts';
import { toTable } from './table.ts';
import { stopSignal } from './until-stopped.ts';

/** Time to wait for abandoned look-ups and connections (ms). */
const LINGER = 1000;

const nameOf = ({ account, check }: CheckLine) => (account === undefined ? check : `${account}: ${check}`);

function toText(lines: readonly CheckLine[]): string {
  const rows = lines.map(line => [line.status, nameOf(line), line.detail + (line.todo ? ` → ${line.todo}` : '')]);
  return toTable(['', 'check', 'found → what to do'], rows);
}

export function doctorCommand(): Command {
  const command = new Command('doctor')
    .description(
      'check configuration, permissions, store, ports, the network path to the service, tokens and each endpoint; changes nothing, even while an agent runs; exit 1 if a check fails, 2 if the configuration is invalid',
    )
    .addOption(configOption())
    .option('--json', 'print JSON')
    .action(async ({ config: file, json }: { config: string; json?: boolean }) => {
      const { lines, isConfigValid } = await examine(file, { ...realDeps, signal: stopSignal() });
      endWithin(LINGER);
      process.stdout.write(`${json ? printableJson({ checks: lines }, 2) : toText(lines)}\n`);
      const failed = lines.filter(({ status }) => status === 'fail');
      if (failed.length === 0) return;
      const message = printable(`failed: ${someOf([...new Set(failed.map(nameOf))])}`);
      if (!isConfigValid) command.error(message, { exitCode: 2 });
      throw new Error(message);
    });
  return command;
}
