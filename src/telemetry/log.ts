import { trace } from '@opentelemetry/api';
import { type DestinationStream, pino } from 'pino';
import type { Log } from '../kit/log.ts';
import { escapedJson, printable } from '../kit/text.ts';
import { createLogOutput } from './log-output.ts';
import type { LogOptions } from './options.ts';

function toText(line: string): string {
  const { time, level, msg, ...fields } = JSON.parse(line) as Record<string, unknown>;
  const pairs = Object.entries(fields).map(
    ([key, value]) => `${key}=${typeof value === 'string' && !/[\s"=]/.test(value) ? value : JSON.stringify(value)}`,
  );
  return `${printable([time, String(level).toUpperCase().padEnd(5), msg, ...pairs].join(' '))}\n`;
}

function activeSpan(): object {
  const span = trace.getActiveSpan()?.spanContext();
  return span ? { trace_id: span.traceId, span_id: span.spanId, trace_flags: `0${span.traceFlags}` } : {};
}

type LineOptions = Pick<LogOptions, 'level' | 'format'>;

export interface ProcessLog extends Log {
  /** Changes the options of this log and its child logs. */
  use(options: LineOptions): void;
}

/** Creates a log that writes to standard error, because standard output contains a command's result. */
export function createLog(options: LineOptions, out: DestinationStream = createLogOutput()): ProcessLog {
  let { format } = options;
  const stream = { write: (line: string) => out.write((format === 'text' ? toText : escapedJson)(line)) };
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
  /** Adds fields to each line. A child of pino would keep the level that it had when it was created. */
  const withFields = (own: object): Log => ({
    debug: (fields, message) => log.debug({ ...own, ...fields }, message),
    info: (fields, message) => log.info({ ...own, ...fields }, message),
    warn: (fields, message) => log.warn({ ...own, ...fields }, message),
    error: (fields, message) => log.error({ ...own, ...fields }, message),
    child: fields => withFields({ ...own, ...fields }),
  });
  return {
    ...withFields({}),
    use(next) {
      format = next.format;
      log.level = next.level;
    },
  };
}
