import { Command } from 'commander';
import { type AccountPlan, planCosts } from '../app/plan.ts';
import { loadConfig } from '../config/load.ts';
import { systemClock } from '../kit/clock.ts';
import { formatDuration } from '../kit/duration.ts';
import { printable } from '../kit/text.ts';
import { toTable } from './table.ts';
import { stopSignal } from './until-stopped.ts';

const whole = (value: number) => Math.ceil(value).toLocaleString('en-US');
const megabytes = (bytes: number) => (bytes / 1e6).toFixed(1);

function toText({ account, rounds, allowedPerDay, planPerDay, series, failure }: AccountPlan): string {
  // What asks the service nothing costs nothing.
  const asking = rounds.filter(({ requests }) => requests > 0);
  const rows = asking.map(({ collector, round, every, requests, seconds, requestsPerDay, bytesPerDay }) => [
    `${collector} ${round}`,
    formatDuration(every),
    String(requests),
    `${seconds.toFixed(1)} s`,
    whole(requestsPerDay / 24),
    whole(requestsPerDay),
    megabytes(bytesPerDay),
  ]);
  const perDay = rounds.reduce((sum, { requestsPerDay }) => sum + requestsPerDay, 0);
  const bytes = rounds.reduce((sum, { bytesPerDay }) => sum + bytesPerDay, 0);
  rows.push(['together', '', '', '', whole(perDay / 24), whole(perDay), megabytes(bytes)]);
  const shareOf = (most: number) => Math.round((perDay / most) * 100);
  const share = shareOf(allowedPerDay);
  return [
    `${account}: ${whole(series)} series`,
    toTable(['round', 'every', 'calls', 'takes', 'calls an hour', 'calls a day', 'MB a day'], rows, [
      'every',
      'calls',
      'takes',
      'calls an hour',
      'calls a day',
      'MB a day',
    ]),
    `${share} % of the ${whole(allowedPerDay)} calls that the budget allows per day${share > 100 ? ': rounds will wait, and data will be older than configured' : ''}`,
    ...(planPerDay === undefined
      ? []
      : [
          `${shareOf(planPerDay)} % of the ${whole(planPerDay)} requests per day that the account’s plan allows for everything${perDay > planPerDay ? ': reading alone takes more' : ''}`,
        ]),
    ...(failure === undefined ? [] : [printable(`not complete: ${failure}`)]),
  ].join('\n');
}

export function planCommand(): Command {
  return new Command('plan')
    .description(
      'run every round twice and print requests, bytes and series per account while there is no new data; exit 1 if an account fails',
    )
    .requiredOption('--config <file>', 'configuration file')
    .action(async ({ config: file }: { config: string }) => {
      const loaded = loadConfig(file, process.env);
      const log = { ...loaded.config.log, level: 'silent' as const };
      const plans = await planCosts(
        { ...loaded, config: { ...loaded.config, log } },
        { env: process.env, clock: systemClock, random: Math.random },
        stopSignal(),
      );
      process.stdout.write(`${plans.map(toText).join('\n\n')}\n`);
      const failed = plans.filter(({ failure }) => failure !== undefined).map(({ account }) => account);
      if (failed.length > 0) throw new Error(`not complete: ${failed.join(', ')}`);
    });
}
