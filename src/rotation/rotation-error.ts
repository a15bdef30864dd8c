/** Why a token was not reset, or may not have been, and what to do. Contains no secret. */
export class RotationError extends Error {
  override readonly name = 'RotationError';
  /** Whether the command line or configuration is wrong, so that no request was sent. */
  readonly isUsage: boolean;

  constructor(message: string, { isUsage = false }: { isUsage?: boolean } = {}) {
    super(message);
    this.isUsage = isUsage;
  }
}

/** Returns the code of a file error, or the message of another error. */
export function codeOf(error: unknown): string {
  return error instanceof Error ? ((error as NodeJS.ErrnoException).code ?? error.message) : String(error);
}
