/** Structured logging: constant text, data in fields. Secrets never go into fields. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  /** A log that adds `fields` to every line. */
  child(fields: object): Log;
}
