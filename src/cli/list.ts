import { Command, Option } from 'commander';
import type { Account } from '../agent/account.ts';
import { kindOf } from '../collectors/dlq/kinds.ts';
import { createRoutes } from '../collectors/routes.ts';
import type { LoadedConfig } from '../config/load.ts';
import type { AccountSettings } from '../config/schema.ts';
import {
  dlqList,
  eventList,
  FILTERS,
  type FilterName,
  filterError,
  KEY_LIST,
  type List,
  type ListName,
  QUEUE_LIST,
  queryOf,
  runList,
  runQueryOf,
  SCHEDULE_LIST,
} from '../lookup/lists.ts';
import { describeQuality } from '../lookup/message.ts';
import { type Quality, readAll, readNewest } from '../lookup/read.ts';
import { configOption } from './config-option.ts';
import { createPrinter, lineWidth, type PrintedRow } from './list/print.ts';
import { commandGroup, integerOption, repeated, timeOption } from './option-values.ts';
import { loadAccounts, readAccounts, report, type SelectionOptions } from './read-alone.ts';
import { stopSignal } from './until-stopped.ts';

const DEFAULT_LIMIT = 50;
const TIME_HELP = 'an ISO 8601 time (UTC if it has no offset), or a duration before now such as 2h';
const WORKFLOWS_OMITTED = ', except failed workflow runs that the service lists only with source=workflow';
const MAX_LIMIT = 1_000_000;

interface Options extends SelectionOptions, Readonly<Partial<Record<FilterName, string | number>>> {
  readonly limit: number;
  readonly all?: boolean;
  readonly json?: boolean;
  readonly ids?: boolean;
  readonly wide?: boolean;
}

const flagOf = (name: string) => `--${name.replace(/[A-Z]/g, letter => `-${letter.toLowerCase()}`)}`;
const FILTER_NAMES = Object.keys(FILTERS) as FilterName[];

function filterErrorOf(name: ListName, options: Options): string | undefined {
  for (const filter of FILTER_NAMES) {
    const value = options[filter];
    const error = value === undefined ? undefined : filterError(name, filter, value);
    if (error !== undefined) return `${flagOf(filter)} ${error}`;
  }
  return undefined;
}

/** Prints the rows of all accounts. Rejects if an account cannot be read or rows contradict a filter. */
async function printList<Row>(
  name: ListName,
  loaded: LoadedConfig,
  { all = false, limit, json, ids, wide }: Options,
  listOf: (settings: AccountSettings) => List<Row>,
  signal: AbortSignal,
): Promise<void> {
  const { stdout } = process;
  const format = json ? 'json' : ids ? 'ids' : 'table';
  const width = wide ? undefined : lineWidth(stdout.columns, process.env.COLUMNS);
  const print = createPrinter(name, { format, width, withAccount: loaded.config.accounts.length > 1 }, stdout);
  let count = 0;
  const found: (PrintedRow & { readonly rank: number })[] = [];
  let hasMore = false;

  async function readAccount({ name: account, at }: Account, settings: AccountSettings): Promise<void> {
    const list = listOf(settings);
    const toPrinted = (row: Row) => ({ id: list.id(row), json: { account, ...list.json(row) }, rank: list.rank(row) });
    const reader = at('background');
    let quality: Quality;
    if (all) {
      quality = await readAll(list, reader, signal, async rows => {
        count += rows.length;
        if (rows.length > 0) await print(rows.map(toPrinted));
      });
    } else {
      const newest = await readNewest(list, reader, { limit, signal });
      for (const row of newest.rows) found.push(toPrinted(row));
      hasMore ||= newest.hasMore;
      quality = newest;
    }
    const { isProven, rejected, incomplete } = quality;
    for (const sentence of describeQuality(isProven, rejected, incomplete)) report(`${account}: ${sentence}`);
  }

  const failed = await readAccounts(loaded, signal, readAccount);
  found.sort((a, b) => b.rank - a.rank);
  await print(found.slice(0, limit));
  if (hasMore || found.length > limit) report('More rows exist: raise --limit, or use --all.');
  if (failed.length > 0) throw new Error(`not read: ${failed.join(', ')}`);
  if (all ? count === 0 : found.length === 0) report('no rows match');
}

function createList<Row>(
  name: ListName,
  description: string,
  listOf: (options: Options, settings: AccountSettings) => List<Row>,
): Command {
  const command = new Command(name)
    .description(description)
    .addOption(configOption())
    .option('--account <name>', 'only this account; may be repeated', repeated);
  for (const filter of FILTER_NAMES) {
    const { lists, help } = FILTERS[filter];
    const isTime = filter === 'since' || filter === 'until';
    const option = new Option(
      `${flagOf(filter)} <${isTime ? 'time' : 'value'}>`,
      isTime ? `${help}: ${TIME_HELP}` : help,
    );
    if (isTime) option.argParser(timeOption);
    command.addOption(lists.some(each => each === name) ? option : option.hideHelp());
  }
  command
    .addOption(
      new Option('--limit <n>', 'maximum number of rows').default(DEFAULT_LIMIT).argParser(integerOption(1, MAX_LIMIT)),
    )
    .addOption(new Option('--all', 'print all rows, in the order of the service').conflicts('limit'))
    .addOption(new Option('--json', 'print a JSON object per line').conflicts('ids'))
    .option('--ids', 'print only ids')
    .option('--wide', 'print all columns in full width');
  return command.action(async (options: Options) => {
    const error = filterErrorOf(name, options);
    if (error !== undefined) command.error(`error: ${error}`);
    const loaded = loadAccounts(command, options);
    const closed = new AbortController();
    // The reader, such as `head`, has closed the output.
    process.stdout.on('error', () => closed.abort());
    const signal = AbortSignal.any([stopSignal(), closed.signal]);
    await printList(name, loaded, options, settings => listOf(options, settings), signal).catch(error => {
      if (!closed.signal.aborted) throw error;
    });
  });
}

export function listCommand(): Command {
  const dlq = createList('dlq', `list dead letters${WORKFLOWS_OMITTED}`, (options, { collect }) => {
    const routes = createRoutes(collect.routes);
    return dlqList(queryOf(options), entry => kindOf(entry, routes), options);
  });
  const events = createList('events', 'list events of messages', options => eventList(queryOf(options)));
  const keys = createList('keys', 'list flow-control keys, the longest waitlist first', () => KEY_LIST);
  const runs = createList('runs', 'list workflow runs', options => runList(runQueryOf(options)));
  const schedules = createList(
    'schedules',
    'list the schedules of the service, the most recently started first',
    () => SCHEDULE_LIST,
  );
  const queues = createList('queues', 'list the queues of the service, the longest first', () => QUEUE_LIST);
  return commandGroup('list', 'list dead letters, events, flow-control keys, schedules, queues or workflow runs', [
    dlq,
    events,
    keys,
    schedules,
    queues,
    runs,
  ]);
}
