import { Command } from 'commander';
import { loadConfig } from '../config/load.ts';
import { systemClock } from '../kit/clock.ts';
import { formatDuration } from '../kit/duration.ts';
import { printable } from '../kit/text.ts';
import { type AccountPlan, planCosts } from './plan-costs.ts';
import { toTable } from './table.ts';
import { stopSignal } from './until-stopped.ts';

const whole = (value: number) => Math.ceil(value).toLocaleString('en-US');
const megabytes = (bytes: number) => (bytes / 1e6).toFixed(1);

const sum = (rounds: AccountPlan['rounds'], of: 'requestsPerDay' | 'bytesPerDay') =>
  rounds.reduce((sum, round) => sum + round[of], 0);

/** `16,068 calls a day: 3 % of the 500,000 that …: under`. */
function share(perDay: number, most: number, whose: string, over: string): string {
  const percent = Math.round((perDay / most) * 100);
  return `${perDay > most ? `over: ${whole(perDay)}` : `under: ${whole(perDay)}`} calls a day are ${percent} % of the ${whole(most)} that ${whose}${perDay > most ? `: ${over}` : ''}`;
}

function toText(plan: AccountPlan): string {
  const { account, rounds, allowedPerDay, planPerDay, series, failures } = plan;
  // What asks the service nothing costs nothing.
  const asking = rounds.filter(({ requests }) => requests > 0);
  if (asking.length === 0) return printable(`${account}: not measured: ${failures.join('; ')}`);
  const rows = asking.map(({ collector, round, every, requests, seconds, requestsPerDay, bytesPerDay }) => [
    `${collector} ${round}`,
    formatDuration(every),
    String(requests),
    `${seconds.toFixed(1)} s`,
    whole(requestsPerDay / 24),
    whole(requestsPerDay),
    megabytes(bytesPerDay),
  ]);
  const perDay = sum(rounds, 'requestsPerDay');
  const together = failures.length > 0 ? 'together, at least' : 'together';
  rows.push([together, '', '', '', whole(perDay / 24), whole(perDay), megabytes(sum(rounds, 'bytesPerDay'))]);
  const columns = ['every', 'calls', 'takes', 'calls an hour', 'calls a day', 'MB a day'];
  return [
    `${account}: ${whole(series)} series`,
    toTable(['round', ...columns], rows, columns),
    share(perDay, allowedPerDay, 'the budget allows', 'rounds will wait, and data will be older than configured'),
    ...(planPerDay === undefined
      ? ['limits.requestsPerDay is not set: nothing to compare with the account’s plan']
      : [share(perDay, planPerDay, 'the account’s plan allows for everything', 'reading alone takes more')]),
    ...failures.map(failure => printable(`not measured: ${failure}`)),
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
        {
          env: process.env,
          clock: systemClock,
          random: Math.random,
          onRefused: (account, message) => process.stderr.write(`${printable(`${account}: ${message}`)}\n`),
        },
        stopSignal(),
      );
      process.stdout.write(`${plans.map(toText).join('\n\n')}\n`);
      const failed = plans.filter(({ failures }) => failures.length > 0).map(({ account }) => account);
      if (failed.length > 0) throw new Error(`not complete: ${failed.join(', ')}`);
    });
}
