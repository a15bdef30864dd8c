import { once } from 'node:events';
import { Command, Option } from 'commander';
import type { Account } from '../agent/account.ts';
import { kindOf } from '../collectors/dlq/kinds.ts';
import { createRoutes } from '../collectors/routes.ts';
import type { LoadedConfig } from '../config/load.ts';
import type { AccountSettings } from '../config/schema.ts';
import { printable, printableJson } from '../kit/text.ts';
import {
  dlqList,
  eventList,
  FILTERS,
  type Filter,
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
import { commandGroup, integerOption, repeated, timeOption } from './option-values.ts';
import { loadAccounts, readAccounts, report, type SelectionOptions } from './read-alone.ts';
import { stopSignal } from './until-stopped.ts';

export interface PrintedRow {
  readonly id: string | undefined;
  readonly json: Readonly<Record<string, unknown>>;
}

export interface PrintOptions {
  readonly format: 'table' | 'json' | 'ids';
  /** Maximum line length of a table; undefined for no limit. */
  readonly width: number | undefined;
  readonly withAccount: boolean;
}

interface Column {
  readonly head: string;
  readonly field: string;
}

const column = (head: string, field = head): Column => ({ head, field });

const ACCOUNT = column('account');
const DESTINATION = column('url');
const MESSAGE = column('message', 'messageId');
const STATUS = column('status', 'responseStatus');
const PROPERTIES = [column('queue'), column('topic'), column('schedule')];

/** Columns, the most important first: the last ones are omitted if they do not fit. */
const COLUMNS: Readonly<Record<ListName, readonly Column[]>> = {
  dlq: [
    column('entered (UTC)', 'enteredAt'),
    STATUS,
    MESSAGE,
    DESTINATION,
    column('dlq id', 'dlqId'),
    column('created (UTC)', 'createdAt'),
    column('callback', 'callbackState'),
    column('kind'),
    ...PROPERTIES,
    column('labels'),
  ],
  events: [
    column('time (UTC)', 'time'),
    column('state'),
    STATUS,
    MESSAGE,
    DESTINATION,
    column('error'),
    column('next delivery (UTC)', 'nextDeliveryAt'),
    ...PROPERTIES,
    column('labels'),
  ],
  keys: [
    column('waiting', 'waitlistSize'),
    column('state'),
    column('key'),
    column('in use', 'parallelismInUse'),
    column('parallelism', 'parallelismLimit'),
    column('rate', 'rateUsed'),
    column('rate limit', 'rateLimit'),
    column('seconds', 'ratePeriodSeconds'),
    column('pinned'),
  ],
  queues: [
    column('waiting', 'lag'),
    column('paused'),
    column('queue', 'name'),
    column('parallelism', 'parallelismLimit'),
    column('updated (UTC)', 'updatedAt'),
    column('created (UTC)', 'createdAt'),
  ],
  schedules: [
    column('last run (UTC)', 'lastRunAt'),
    column('next run (UTC)', 'nextRunAt'),
    column('state'),
    column('schedule', 'scheduleId'),
    column('cron'),
    column('time zone', 'timeZone'),
    DESTINATION,
    column('topic'),
    column('error'),
    column('queue'),
  ],
  runs: [
    column('created (UTC)', 'createdAt'),
    column('state'),
    column('run', 'runId'),
    DESTINATION,
    column('completed (UTC)', 'completedAt'),
    column('callback', 'callbackState'),
    column('next delivery (UTC)', 'nextDeliveryAt'),
    column('dlq id', 'dlqId'),
    column('key', 'flowControlKey'),
    column('labels'),
  ],
};

/** Columns that may be shortened. Ids in other columns must be complete. */
const isFlexible = ({ head }: Column) => head === 'url' || head === 'error' || head === 'key';

const GAP = 2;
const MIN_FLEXIBLE = 10;

function cellOf(column: Column, { json }: PrintedRow): string {
  const value = json[column.field];
  if (column.field === 'enteredAt' && value === undefined) return '–';
  if (column.head.endsWith('(UTC)'))
    return String(value ?? '')
      .slice(0, 19)
      .replace('T', ' ');
  if (column.head === 'url') return printable(String(value ?? '').replace(/^https?:\/\//, ''));
  return printable(Array.isArray(value) ? value.join(', ') : String(value ?? ''));
}

interface Fitted extends Column {
  readonly width: number;
  readonly isNumber: boolean;
}

/** Omits empty columns and columns that do not fit, and sets the widths. */
function fitColumns(
  columns: readonly Column[],
  rows: readonly PrintedRow[],
  maxWidth = Number.POSITIVE_INFINITY,
): Fitted[] {
  const fitted: Fitted[] = [];
  let left = maxWidth;
  for (const column of columns) {
    const widest = rows.reduce((most, row) => Math.max(most, cellOf(column, row).length), 0);
    if (widest === 0) continue;
    const full = Math.max(widest, column.head.length);
    const width = isFlexible(column) ? Math.min(full, Math.max(left, MIN_FLEXIBLE)) : full;
    if (width > left && fitted.length > 0) break;
    fitted.push({ ...column, width, isNumber: rows.some(({ json }) => typeof json[column.field] === 'number') });
    left -= width + GAP;
    if (width < full) break;
  }
  return fitted;
}

function lineOf(columns: readonly Fitted[], textOf: (column: Fitted) => string): string {
  const cells = columns.map(column => {
    const { width, isNumber } = column;
    const text = textOf(column);
    const cell = isFlexible(column) && text.length > width ? `${text.slice(0, width - 1)}…` : text;
    return isNumber ? cell.padStart(width) : cell.padEnd(width);
  });
  return `${cells.join(' '.repeat(GAP)).trimEnd()}\n`;
}

/** Line length if neither a terminal nor COLUMNS determines it (characters). */
const DEFAULT_WIDTH = 120;

/** Returns the line length. `columns`: width of the terminal, 0 if unknown. `setting`: value of COLUMNS. */
export function lineWidth(columns: number | undefined, setting: string | undefined): number {
  return [columns, Number(setting)].find(width => width !== undefined && width > 0) ?? DEFAULT_WIDTH;
}

/** Returns a function that prints rows as they arrive. The first rows set the column widths. Rejects if `out` is closed. */
export function createPrinter(
  name: ListName,
  { format, width, withAccount }: PrintOptions,
  out: NodeJS.WritableStream,
): (rows: readonly PrintedRow[]) => Promise<void> {
  let fitted: Fitted[] | undefined;

  function* linesOf(rows: readonly PrintedRow[]): Generator<string> {
    if (format === 'table' && !fitted && rows.length > 0) {
      fitted = fitColumns(withAccount ? [ACCOUNT, ...COLUMNS[name]] : COLUMNS[name], rows, width);
      yield lineOf(fitted, ({ head }) => head);
    }
    for (const row of rows) {
      if (format === 'json') yield `${printableJson(row.json)}\n`;
      else if (format === 'table') yield lineOf(fitted ?? [], column => cellOf(column, row));
      else if (row.id !== undefined) yield `${printable(row.id)}\n`;
    }
  }

  return async rows => {
    const text = [...linesOf(rows)].join('');
    if (text !== '' && !out.write(text)) await once(out, 'drain');
  };
}

const DEFAULT_LIMIT = 50;
const TIME_HELP = 'an ISO 8601 time (UTC if it has no offset), or a duration before now such as 2h';
const WORKFLOWS_OMITTED = ', except failed workflow runs that the service lists separately: see list runs';
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
    const { lists, help: common, helpOfRuns = common }: Filter = FILTERS[filter];
    const help = name === 'runs' ? helpOfRuns : common;
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
