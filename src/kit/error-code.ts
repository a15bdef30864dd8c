/** Returns the code or class of an error, because its message may contain a secret address. */
export function errorCode(error: unknown): string {
  const { code, name } = error as { readonly code?: unknown; readonly name?: string };
  return typeof code === 'string' ? code : (name ?? 'error');
}
