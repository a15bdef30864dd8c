import { Command, Option } from 'commander';
import type { AccountBacktest } from '../app/backtest/account.ts';
import { allowances, type BacktestOutcome, type BacktestProgress, backtest } from '../app/backtest/backtest.ts';
import { type LoadedConfig, loadConfig } from '../config/load.ts';
import { systemClock } from '../kit/clock.ts';
import { printable } from '../kit/text.ts';
import { backtestText, moment } from './backtest-text.ts';
import { durationOption, momentOption } from './option-values.ts';
import { stopSignal } from './until-stopped.ts';

interface BacktestOptions {
  readonly config: string;
  readonly last?: number;
  readonly from?: number;
  readonly to?: number;
  readonly account?: string;
  readonly json?: boolean;
}

const DAY = 86_400_000;
const whole = (value: number) => value.toLocaleString('en-US');

/** The range that is asked for. */
function rangeOf({ last = 7 * DAY, from, to }: BacktestOptions, now: number) {
  const end = Math.min(to ?? now, now);
  return { from: from ?? end - last, to: end };
}

/** The configuration with one of its accounts alone, where one is named; undefined where there is none of that name. */
function only(loaded: LoadedConfig, account: string | undefined): LoadedConfig | undefined {
  if (account === undefined) return loaded;
  const accounts = loaded.config.accounts.filter(({ name }) => name === account);
  return accounts.length === 0 ? undefined : { ...loaded, config: { ...loaded.config, accounts } };
}

/** What it will cost, as far as that can be said: how much the log holds, only reading it tells. */
function costText({ config }: LoadedConfig, { from, to }: { readonly from: number; readonly to: number }): string[] {
  return [
    `reading the event log from ${moment(from)} to ${moment(to)} UTC: a call for each 1,000 events, or a few more`,
    ...allowances(config).map(({ account, requestsPerSecond, requestsPerDay }) =>
      printable(
        `${account}: its budget allows ${whole(requestsPerSecond)} calls a second and ${whole(requestsPerDay)} a day; an agent that runs has a budget of its own`,
      ),
    ),
  ];
}

const progressText = ({ account, done, events, requests }: BacktestProgress) =>
  printable(
    `${account}: ${Math.floor(done * 100)} %, ${whole(events)} ${events === 1 ? 'event' : 'events'}, ${whole(requests)} calls`,
  );

function createTerminalProgress(): (progress: BacktestProgress) => void {
  let toldAt = Number.NEGATIVE_INFINITY;
  return progress => {
    const now = systemClock.monotonic();
    if (now - toldAt < 200) return;
    toldAt = now;
    process.stderr.write(`\r\u001b[K${progressText(progress)}`);
  };
}

/** As JSON: times are ISO 8601, durations milliseconds, what is not known is null. */
const toJson = ({ account, result, failure, requests }: BacktestOutcome) => ({
  account,
  requests,
  failure: failure ?? null,
  ...(result ? withTimes(result) : {}),
});

const TIMES = new Set(['from', 'to', 'at', 'judgedFrom']);
const withTimes = (result: AccountBacktest): object =>
  JSON.parse(
    JSON.stringify(result, (key, value) => {
      if (value === undefined) return TIMES.has(key) ? null : undefined;
      return TIMES.has(key) && typeof value === 'number' ? new Date(value).toISOString() : value;
    }),
  );

export function backtestCommand(): Command {
  const command = new Command('backtest');
  return command
    .description(
      'judge alerts, error budgets and auto-cancel rules over what the service still remembers; sends and stores nothing',
    )
    .requiredOption('--config <file>', 'configuration file')
    .addOption(new Option('--last <duration>', 'how far back, such as 7d (default: 7d)').argParser(durationOption))
    .addOption(new Option('--from <time>', 'begin, ISO 8601').argParser(momentOption).conflicts('last'))
    .addOption(new Option('--to <time>', 'end, ISO 8601 (default: now)').argParser(momentOption))
    .option('--account <name>', 'only this account (default: all, one after the other)')
    .option('--json', 'print JSON')
    .action(async (options: BacktestOptions) => {
      const loaded = only(loadConfig(options.config, process.env), options.account);
      if (!loaded) return command.error(`there is no account called ${options.account} in the configuration`);
      const range = rangeOf(options, systemClock.now());
      if (range.from >= range.to) return command.error('--from must be before --to, and before now');
      const isTerminal = process.stderr.isTTY;
      process.stderr.write(`${costText(loaded, range).join('\n')}\n`);
      const outcomes = await backtest(
        loaded,
        {
          env: process.env,
          clock: systemClock,
          random: Math.random,
          onProgress: isTerminal ? createTerminalProgress() : () => undefined,
        },
        range,
        stopSignal(),
      );
      if (isTerminal) process.stderr.write('\r\u001b[K');
      if (options.json) process.stdout.write(`${JSON.stringify({ accounts: outcomes.map(toJson) }, null, 2)}\n`);
      else process.stdout.write(`${outcomes.map(backtestText).join('\n\n')}\n`);
      const failed = outcomes.flatMap(({ account, failure }) => (failure === undefined ? [] : [account]));
      if (failed.length > 0) throw new Error(`not complete: ${failed.join(', ')}`);
    });
}
