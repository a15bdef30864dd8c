import { parse, pathToRegexp } from 'path-to-regexp';
import { z } from 'zod';
import { memoize } from '../kit/memo.ts';
import { parseUrl } from '../kit/text.ts';

/** Route of a path that no pattern matches. Patterns begin with `/`, so none can have this name. */
export const UNMATCHED = '__unmatched__';

const MAX_ROUTE_LENGTH = 200;
const MAX_ROUTES = 100;
/** Maximum length of a matched path (characters). The route of longer paths is UNMATCHED. */
const MAX_PATH_LENGTH = 2048;
/** Maximum total length of the cached paths (characters). */
const MAX_CACHED = 2 ** 20;

/** Percent-encodes literal text in the same way as `URL.pathname`. */
const encodePath = (text: string) => text.replace(/[^\x21-\x7e]+/g, encodeURIComponent);

/** Compiles a pattern. The library's expressions do not backtrack into matched segments, so matching takes linear time. */
const compile = (pattern: string) => pathToRegexp(parse(pattern, { encodePath })).regexp;

/** Returns why a path pattern is invalid, or undefined. */
function errorOf(pattern: string): string | undefined {
  if (!pattern.startsWith('/')) return 'does not begin with /';
  try {
    compile(pattern);
    return undefined;
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return error.message.replace(/: \/.*$/su, '');
  }
}

const route = z
  .string()
  .max(MAX_ROUTE_LENGTH)
  .superRefine((pattern, context) => {
    const error = errorOf(pattern);
    if (error === undefined) return;
    const message = `must be a path pattern such as /users/:id or /files/*path: ${error}`;
    context.addIssue({ code: 'custom', message });
  });

export const routesOption = z
  .array(route)
  .max(MAX_ROUTES)
  .refine(routes => new Set(routes).size === routes.length, { error: 'must not name a pattern twice' })
  .default([])
  .describe(
    `Path patterns of routes, such as \`/users/:id\` or \`/files/*path\`: see docs/collectors.md. The first matching pattern is the route. Without a match, the route is \`${UNMATCHED}\`.`,
  );

/** The route of a URL is the first pattern that matches its path, or UNMATCHED. */
export interface Routes {
  readonly patterns: readonly string[];
  of(url: string): string;
  /** Like `of`, for the percent-encoded path of a URL. */
  ofPath(path: string): string;
}

export const NO_ROUTES: Routes = { patterns: [], of: () => UNMATCHED, ofPath: () => UNMATCHED };

/** Creates routes. Caches them by path, because the URLs of a walk repeat. */
export function createRoutes(patterns: readonly string[]): Routes {
  if (patterns.length === 0) return NO_ROUTES;
  const routes = patterns.map(pattern => ({ pattern, expression: compile(pattern) }));
  const find = (path: string) => routes.find(({ expression }) => expression.test(path))?.pattern ?? UNMATCHED;
  const cached = memoize(find, MAX_CACHED);
  const ofPath = (path: string) => (path.length > MAX_PATH_LENGTH ? UNMATCHED : cached(path));
  return { patterns, of: url => ofPath(parseUrl(url)?.pathname ?? ''), ofPath };
}
