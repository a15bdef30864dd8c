/** Runs `work`. Returns why it failed: the code of a system error, or a message; undefined if it succeeded. */
export function failureOf(work: () => void): string | undefined {
  try {
    work();
    return undefined;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    return code ?? message;
  }
}
