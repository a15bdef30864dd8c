/** Why a token is not reset, or not yet known to be: a sentence that says what to do, and no secret. */
export class RotationError extends Error {
  override readonly name = 'RotationError';
  /** The command line or the configuration is wrong, and nothing was tried. */
  readonly isUsage: boolean;

  constructor(message: string, { isUsage = false }: { isUsage?: boolean } = {}) {
    super(message);
    this.isUsage = isUsage;
  }
}

/** What the system says of a file, in one word. */
export function codeOf(error: unknown): string {
  return error instanceof Error ? ((error as NodeJS.ErrnoException).code ?? error.message) : String(error);
}
