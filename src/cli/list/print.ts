import { once } from 'node:events';
import { printable, printableJson } from '../../kit/text.ts';
import type { ListName } from '../../lookup/lists.ts';

/** A row of a list as JSON, with its account. */
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
    column('parallel', 'parallelismInUse'),
    column('limit', 'parallelismLimit'),
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

/** Prints rows as they arrive. The first rows set the widths of a table. Rejects if `out` is closed. */
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
