import { Command, Option } from 'commander';
import { systemClock } from '../kit/clock.ts';
import { plural, printable } from '../kit/text.ts';
import { durationText } from '../rules/checks/words.ts';
import { type AccountResult, type AlertChange, backtest, type RuleResult } from './backtest/run.ts';
import { ExitStatus } from './exit-status.ts';
import { repeated, timeOption } from './option-values.ts';
import { loadAccounts, realDeps, report, type SelectionOptions, showProgress } from './read-alone.ts';
import { stopSignal } from './until-stopped.ts';

const WEEK = 7 * 86_400_000;

const seconds = (time: number) => new Date(time).toISOString().replace(/\.\d+Z$/, 'Z');

function changeLine({ at, account, rule, labels, state, value, startedAt }: AlertChange): string {
  const named = Object.entries(labels).map(([name, text]) => `${name}=${JSON.stringify(text)}`);
  const alert = named.length === 0 ? rule : `${rule}{${named.join(',')}}`;
  const after = startedAt === undefined ? '' : ` after ${durationText((at - startedAt) / 1000)}`;
  return `${seconds(at)} ${account} ${alert} ${state} ${Number(value.toPrecision(4))}${after}`;
}

function ruleLine({ rule, fired, firingFor, unknownFor }: RuleResult): string {
  const firings =
    fired === 0 ? 'did not fire' : `fired ${plural(fired, 'time')}, ${durationText(firingFor / 1000)} in all`;
  if (unknownFor === 0) return `${rule}: ${firings}`;
  return `${rule}: ${firings}; unknown for ${durationText(unknownFor / 1000)}: data or windows were not complete`;
}

function resultLines({ account, range, events, rejected, requests, rules }: AccountResult): string[] {
  const evaluated = range ? `${seconds(range.from)} to ${seconds(range.to)}` : 'not evaluated';
  const unread = rejected > 0 ? [`${plural(rejected, 'row')} of the log could not be read`] : [];
  const cost = `${plural(events, 'event')} read with ${plural(requests, 'request')} of the day's budget`;
  const unknown = [...Map.groupBy(rules, rule => rule.unknown)].flatMap(([reason, each]) =>
    reason === undefined ? [] : [`${each.map(({ rule }) => rule).join(', ')}: unknown: ${reason}`],
  );
  const known = rules.filter(rule => rule.unknown === undefined).map(ruleLine);
  return [`${evaluated}; ${cost}`, ...unread, ...known, ...unknown].map(line => `${account}: ${line}`);
}

export function backtestCommand(): Command {
  const command = new Command('backtest');
  return command
    .description(
      'evaluate built-in alerts and alert rules on the remaining event log, and print when each would have fired; its requests count towards the account’s budget; stores and sends nothing',
    )
    .requiredOption('--config <file>', 'configuration file of the agent; required')
    .addOption(
      new Option('--since <time>', 'start: ISO 8601, or a duration before now such as 3d (default: 7d)').argParser(
        timeOption,
      ),
    )
    .option('--account <name>', 'only this account; may be repeated', repeated)
    .action(
      async ({ since = systemClock.now() - WEEK, ...options }: SelectionOptions & { readonly since?: number }) => {
        const loaded = loadAccounts(command, options);
        if (since >= systemClock.now()) return command.error('error: --since must be before now');
        let shownAt = Number.NEGATIVE_INFINITY;
        const print = (line: string) => {
          showProgress('');
          process.stdout.write(`${printable(line)}\n`);
        };
        let failures = 0;
        const results = await backtest(loaded, since, {
          ...realDeps,
          signal: stopSignal(),
          onChange: change => print(changeLine(change)),
          onFailure(account, error) {
            failures += 1;
            report(`${account}: ${error instanceof Error ? error.message : error}`);
          },
          onProgress({ account, at, requests }) {
            if (systemClock.monotonic() - shownAt < 200) return;
            shownAt = systemClock.monotonic();
            showProgress(printable(`${account}: ${seconds(at)}, ${plural(requests, 'request')}`));
          },
        });
        for (const line of results.flatMap(resultLines)) print(line);
        if (failures > 0) throw new ExitStatus(1);
      },
    );
}
