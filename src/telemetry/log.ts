import { trace } from '@opentelemetry/api';
import { type DestinationStream, destination, type Logger, pino } from 'pino';
import type { Log } from '../kit/log.ts';
import { printable } from '../kit/text.ts';
import type { LogOptions } from './options.ts';

/** One line for people: time, level, message, then the fields as key=value. */
function toText(line: string): string {
  const { time, level, msg, ...fields } = JSON.parse(line) as Record<string, unknown>;
  const pairs = Object.entries(fields).map(
    ([key, value]) => `${key}=${typeof value === 'string' && !/[\s"=]/.test(value) ? value : JSON.stringify(value)}`,
  );
  return `${printable([time, String(level).toUpperCase().padEnd(5), msg, ...pairs].join(' '))}\n`;
}

/** The same JSON in which what a terminal would obey is escaped. JSON itself asks it of the first 32 characters alone. */
function toJson(line: string): string {
  const escaped = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return line.replace(/[\x7f-\x9f\p{Cf}\p{Zl}\p{Zp}]/gu, found => found.split('').map(escaped).join(''));
}

/**
 * Maximum number of characters that wait for the reader of the log; further lines are dropped. A reader that stalls must not stall
 * the agent. 10,000 lines about new dead letters have 3,500,000.
 */
const MOST_WAITING = 4_000_000;

/** Which span a line belongs to; nothing while no SDK is started. */
function activeSpan(): object {
  const span = trace.getActiveSpan()?.spanContext();
  return span ? { trace_id: span.traceId, span_id: span.spanId, trace_flags: `0${span.traceFlags}` } : {};
}

type LineOptions = Pick<LogOptions, 'level' | 'format'>;

/** A log whose options can change, for the logs made from it too. */
export interface ProcessLog extends Log {
  use(options: LineOptions): void;
}

/** The process's log. It goes to standard error, so that standard output stays a command's answer. */
export function createLog(
  options: LineOptions,
  out: DestinationStream = destination({ dest: 2, sync: false, maxLength: MOST_WAITING }),
): ProcessLog {
  let { format } = options;
  const stream = { write: (line: string) => out.write((format === 'text' ? toText : toJson)(line)) };
  const log = pino(
    {
      level: options.level,
      base: null,
      mixin: activeSpan,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: label => ({ level: label }) },
    },
    stream,
  );
  return {
    ...leveled(log, () => log.level),
    use(next) {
      format = next.format;
      log.level = next.level;
    },
  };
}

/** pino copies the level into a child when that is made; here it follows. */
function leveled(log: Logger, level: () => string): Log {
  const at = (): Logger => {
    if (log.level !== level()) log.level = level();
    return log;
  };
  return {
    debug: (fields, message) => at().debug(fields, message),
    info: (fields, message) => at().info(fields, message),
    warn: (fields, message) => at().warn(fields, message),
    error: (fields, message) => at().error(fields, message),
    child: fields => leveled(log.child(fields), level),
  };
}
