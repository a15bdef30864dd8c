import { parse, pathToRegexp } from 'path-to-regexp';
import { z } from 'zod';
import { memoize } from '../kit/memo.ts';

/** Stands for a path that no pattern matches. No pattern is written so: they begin with `/`. */
export const UNMATCHED = '__unmatched__';

const LONGEST_ROUTE = 200;
const MOST_ROUTES = 100;
/** Longer paths are matched by no pattern: nothing on the way of a request takes such an address. */
const LONGEST_PATH = 2048;
/** What the paths may weigh whose routes are remembered, in characters: those of a walk of a large queue. */
const MOST_REMEMBERED = 2 ** 20;

/** As an address spells it. */
const encodePath = (text: string) => text.toWellFormed().replace(/[^\x21-\x7e]+/g, encodeURIComponent);

/** Its time is linear in the length of a path: the library locks what it has matched. */
const compile = (pattern: string) => pathToRegexp(parse(pattern, { encodePath })).regexp;

/** Why text is no path pattern; undefined when it is one. */
function faultOf(pattern: string): string | undefined {
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
  .max(LONGEST_ROUTE)
  .superRefine((pattern, context) => {
    const fault = faultOf(pattern);
    if (fault === undefined) return;
    context.addIssue({
      code: 'custom',
      message: `must be a path pattern such as /users/:id or /files/*path: ${fault}`,
    });
  });

export const routesOption = z
  .array(route)
  .max(MOST_ROUTES)
  .refine(routes => new Set(routes).size === routes.length, { error: 'must not name a pattern twice' })
  .default([])
  .describe(
    `Path patterns that name routes: \`:id\` stands for a segment or a part of one, \`*path\` for any number of segments, \`{…}\` for what may be missing; letter case and a slash at the end make no difference. The first pattern that matches the path of a destination is its route; without a match the route is \`${UNMATCHED}\`.`,
  );

/** Names addresses by their path: the first pattern that matches it, or UNMATCHED. */
export interface Routes {
  readonly patterns: readonly string[];
  of(url: string): string;
  /** The same, of a path as its address spells it. */
  ofPath(path: string): string;
}

export const NO_ROUTES: Routes = { patterns: [], of: () => UNMATCHED, ofPath: () => UNMATCHED };

/** What it says of a path is remembered: a walk shows the same few addresses again and again. */
export function createRoutes(patterns: readonly string[]): Routes {
  if (patterns.length === 0) return NO_ROUTES;
  const routes = patterns.map(pattern => ({ pattern, expression: compile(pattern) }));
  const find = (path: string) => routes.find(({ expression }) => expression.test(path))?.pattern ?? UNMATCHED;
  const remembered = memoize(find, MOST_REMEMBERED);
  const ofPath = (path: string) => (path.length > LONGEST_PATH ? UNMATCHED : remembered(path));
  return { patterns, of: url => ofPath(URL.parse(url)?.pathname ?? ''), ofPath };
}
