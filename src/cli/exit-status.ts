/** Thrown by a command that has printed its result and ends with this exit code. */
export class ExitStatus extends Error {
  readonly code: number;

  constructor(code: number) {
    super(`exit code ${code}`);
    this.code = code;
  }
}
