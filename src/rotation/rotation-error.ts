/** Why a token was not reset, or may not have been, and what to do. Contains no secret. */
export class RotationError extends Error {
  override readonly name = 'RotationError';
  /** Whether the command line or configuration is wrong, so that no request was sent. */
  readonly isUsage: boolean;

  constructor(message: string, isUsage = false) {
    super(message);
    this.isUsage = isUsage;
  }
}
