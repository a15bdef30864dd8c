/** Why a token was not reset, or may not have been: a sentence that says what to do, without secrets. */
export class RotationError extends Error {
  override readonly name = 'RotationError';
  /** Wrong command line or configuration: nothing was tried. */
  readonly isUsage: boolean;

  constructor(message: string, { isUsage = false }: { isUsage?: boolean } = {}) {
    super(message);
    this.isUsage = isUsage;
  }
}

/** Error code of a file operation. */
export function codeOf(error: unknown): string {
  return error instanceof Error ? ((error as NodeJS.ErrnoException).code ?? error.message) : String(error);
}
