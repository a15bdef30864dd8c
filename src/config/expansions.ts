type Path = readonly PropertyKey[];

/** Text of any kind may stand here. */
const FREE: readonly string[] = ['match', 'except', 'annotations', 'labels', 'include', 'exclude', 'watch', 'reason'];
const SECRET: readonly PropertyKey[] = ['token', 'actionToken', 'password', 'secret', 'proxy', 'headers'];
/** `${NAME}`, also with a default, and `$NAME` alone. */
const VARIABLE = /\$\{([A-Za-z_]\w*)[^}]*\}|^\$([A-Z_][A-Z0-9_]*)$/;

/** Where text looks as if a variable of the environment was to stand for it: that is never so. */
export function expansions(value: unknown, path: Path = []): { readonly path: Path; readonly message: string }[] {
  if (typeof value === 'string') {
    const [, braced, bare] = VARIABLE.exec(value) ?? [];
    const name = braced ?? bare;
    if (name === undefined) return [];
    const instead = path.some(key => SECRET.includes(key)) ? `write { env: ${name} }` : 'write the value itself';
    return [{ path, message: `variables are not expanded here; ${instead}` }];
  }
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    FREE.includes(key) ? [] : expansions(inner, [...path, Array.isArray(value) ? Number(key) : key]),
  );
}
