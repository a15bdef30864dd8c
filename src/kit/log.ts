export interface LogLine {
  readonly fields: object;
  readonly message: string;
}

/** Log lines of one step of a round, and the number of lines omitted because there were too many. */
export interface LogBatch {
  readonly lines: readonly LogLine[];
  readonly omitted: number;
}

/** Structured logging: constant text, data in fields. Secrets never go into fields. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  child(fields: object): Log;
}
