import { Command, Option } from 'commander';
import { loadConfig } from '../config/load.ts';
import { systemClock } from '../kit/clock.ts';
import { printable } from '../kit/text.ts';
import { collectOnce, type Progress, type Snapshot } from './collect-once.ts';
import { toTable } from './table.ts';
import { stopSignal } from './until-stopped.ts';

const BAR = 24;

function progressLine({ roundsDone, rounds, requests }: Progress): string {
  const done = rounds === 0 ? BAR : Math.floor((roundsDone / rounds) * BAR);
  return `\r[${'#'.repeat(done)}${'.'.repeat(BAR - done)}] ${roundsDone}/${rounds} rounds, ${requests} requests`;
}

function formatValue(metric: string, value: number): string {
  return metric.endsWith('_timestamp_seconds') ? new Date(value * 1000).toISOString() : String(value);
}

function groupTable(groups: Snapshot['groups']): string[] {
  if (groups.length === 0) return [];
  const rows = groups.map(({ account, id, urlHost, route, responseStatus, messages, sample = '' }) => [
    account,
    id,
    urlHost,
    route,
    responseStatus,
    String(messages),
    sample,
  ]);
  return ['', toTable(['account', 'group', 'host', 'route', 'status', 'messages', 'one of them'], rows, ['messages'])];
}

function toText({ samples, groups, accounts }: Snapshot): string {
  const rows = samples.map(({ account, metric, labels, value }) => [
    account,
    metric.replace(/^delivery_/, ''),
    Object.values(labels).join(', '),
    formatValue(metric, value),
  ]);
  const failures = accounts.flatMap(({ account, collectors }) =>
    collectors.flatMap(({ collector, rounds }) =>
      rounds.flatMap(({ failure }) =>
        failure ? [printable(`${account}: ${collector} failed: ${failure.message} (${failure.reason})`)] : [],
      ),
    ),
  );
  return [toTable(['account', 'metric', 'of', 'value'], rows, ['value']), ...groupTable(groups), ...failures].join(
    '\n',
  );
}

export function snapshotCommand(): Command {
  return new Command('snapshot')
    .description('read everything once and print it; exit 1 if an account fails')
    .requiredOption('--config <file>', 'configuration file')
    .addOption(new Option('--json', 'print JSON').conflicts('prometheus'))
    .addOption(new Option('--prometheus', 'print Prometheus text format').conflicts('json'))
    .action(async ({ config: file, json, prometheus }: { config: string; json?: boolean; prometheus?: boolean }) => {
      const loaded = loadConfig(file, process.env);
      const terminal = process.stderr.isTTY;
      const snapshot = await collectOnce(
        // What fails is in the answer; a log beside it would say it twice.
        { ...loaded, config: { ...loaded.config, log: { ...loaded.config.log, level: 'silent' } } },
        { env: process.env, clock: systemClock, random: Math.random },
        {
          signal: stopSignal(),
          onProgress: progress => {
            if (terminal) process.stderr.write(progressLine(progress));
          },
        },
      );
      if (terminal) process.stderr.write('\r\u001b[K');
      if (prometheus) process.stdout.write(snapshot.text);
      else if (json)
        process.stdout.write(
          `${JSON.stringify({ accounts: snapshot.accounts, samples: snapshot.samples, groups: snapshot.groups }, null, 2)}\n`,
        );
      else process.stdout.write(`${toText(snapshot)}\n`);
      const failed = snapshot.accounts.filter(({ up }) => !up).map(({ account }) => account);
      if (failed.length > 0) throw new Error(`not complete: ${failed.join(', ')}`);
    });
}
