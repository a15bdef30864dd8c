/** Returns the code or class of an error. Its message may contain an address, which may be secret. */
export function errorCode(error: unknown): string {
  const { code, name } = error as { readonly code?: unknown; readonly name?: string };
  return typeof code === 'string' ? code : (name ?? 'error');
}
