import { createWriteStream, existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { Command, InvalidArgumentError, Option } from 'commander';
import type { LoadedConfig } from '../config/load.ts';
import { systemClock } from '../kit/clock.ts';
import { plural } from '../kit/text.ts';
import { type Backfilled, type BackfillProgress, backfill } from './backfill/run.ts';
import { repeated, timeOption } from './option-values.ts';
import { loadAccounts, realDeps, report, type SelectionOptions, showProgress } from './read-alone.ts';
import { stopSignal } from './until-stopped.ts';

type Labels = Readonly<Record<string, string>>;

/** Parses a label such as `instance=host:10922` and adds it to `before`. */
function labelOption(text: string, before: Labels = {}): Labels {
  const [, name, value] = /^([a-zA-Z_]\w*)=(.*)$/s.exec(text) ?? [];
  if (name === undefined || value === undefined)
    throw new InvalidArgumentError(
      'must be NAME=VALUE; a name has letters, digits and _, and does not begin with a digit.',
    );
  if (name === 'account' || name === 'le')
    throw new InvalidArgumentError(`${name} is a label that the series already have.`);
  return { ...before, [name]: value };
}

const seconds = (time: number) => new Date(time).toISOString().replace(/\.000Z$/, 'Z');

function progressLine({ account, from, readTo, to, events, requests }: BackfillProgress): string {
  const done = Math.floor((100 * Math.max(0, Math.min(readTo, to) - from)) / Math.max(1, to - from));
  return `${account}: ${done} % read, ${plural(events, 'event')}, ${plural(requests, 'request')}`;
}

function resultLines({ account, written, events, requests, leastRequests, notes, refusal }: Backfilled): string[] {
  const cost = `${plural(events, 'event')} read with ${plural(requests, 'request')} (at least ${leastRequests})`;
  const what = written
    ? `${seconds(written.from)} to ${seconds(written.to)}, ${plural(written.points, 'point')} in time; ${cost}`
    : (refusal ?? `nothing to write; ${cost}`);
  return [what, ...notes].map(line => `${account}: ${line}`);
}

interface Options extends SelectionOptions {
  readonly from: number;
  readonly to?: number;
  readonly label?: Labels;
  readonly out?: string;
}

const write = (out: string | undefined, pieces: Iterable<string>): Promise<void> =>
  out === undefined ? pipeline(pieces, process.stdout, { end: false }) : pipeline(pieces, createWriteStream(out));

function errorOf({ from, to, out }: Options): string | undefined {
  const now = systemClock.now();
  if (from >= Math.min(to ?? now, now)) return '--from must be before --to, and before now';
  if (out !== undefined && !existsSync(dirname(out))) return `--out: there is no folder ${dirname(out)}`;
  return undefined;
}

async function run({ from, to, label, out }: Options, loaded: LoadedConfig): Promise<void> {
  const results = await backfill(
    loaded,
    {
      from,
      to,
      labels: name => ({ job: 'delivery-watch', instance: `delivery-watch/${name}`, ...label }),
    },
    {
      ...realDeps,
      signal: stopSignal(),
      onProgress: progress => showProgress(progressLine(progress)),
      write: pieces => write(out, pieces),
    },
  );
  for (const line of results.flatMap(resultLines)) report(line);
  const refused = results.filter(({ refusal }) => refusal !== undefined);
  if (refused.length > 0) throw new Error(`not written: ${plural(refused.length, 'account')}`);
}

export function backfillCommand(): Command {
  const command = new Command('backfill');
  return command
    .description(
      'write the remaining event log from before the first start of the agent as OpenMetrics with timestamps, a point a minute, for promtool tsdb create-blocks-from openmetrics; exit 1 if an account is refused',
    )
    .requiredOption('--config <file>', 'configuration file of the agent; required')
    .addOption(
      new Option('--from <time>', 'start of the range: ISO 8601, or a duration before now such as 3d')
        .argParser(timeOption)
        .makeOptionMandatory(),
    )
    .addOption(
      new Option(
        '--to <time>',
        'end of the range; default: the first start of the agent, or now if it never ran',
      ).argParser(timeOption),
    )
    .option('--account <name>', 'only this account; may be repeated', repeated)
    .option(
      '--label <name=value>',
      'label of every series, as Prometheus adds it to a scrape; may be repeated; default: job=delivery-watch, instance=delivery-watch/ACCOUNT as service discovery names it',
      labelOption,
    )
    .option('--out <file>', 'write to this file; default: standard output')
    .action(async (options: Options) => {
      const loaded = loadAccounts(command, options);
      const error = errorOf(options);
      if (error !== undefined) return command.error(`error: ${error}`);
      await run(options, loaded);
    });
}
