export interface LogLine {
  readonly fields: object;
  readonly message: string;
}

/** Log lines of one step of a round. */
export interface LogBatch {
  readonly lines: readonly LogLine[];
  /** Number of lines omitted because they exceed the limit. */
  readonly omitted: number;
}

/** Structured logging: constant text, and data without secrets in fields. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  child(fields: object): Log;
}
