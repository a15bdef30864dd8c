import { RE2JS, RE2JSException, RE2JSSyntaxException } from 're2js';
import { z } from 'zod';
import { memoize } from '../kit/memo.ts';
import { CONDITION_KEYS, type ConditionKey } from '../model/entry-conditions.ts';

/** Maximum length of a tested text (characters). */
const MAX_TEXT = 8192;
/** Maximum total length of cached texts (characters). */
const MAX_CACHED = 2 ** 22;

/** Returns why a pattern is invalid, or undefined. Does not quote the pattern. */
export function patternError(pattern: string): string | undefined {
  try {
    RE2JS.compile(pattern, RE2JS.DOTALL);
    return undefined;
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error;
    const why = error instanceof RE2JSSyntaxException ? error.getDescription() : 'too large';
    return `must be a Prometheus regular expression (RE2: no lookaround, no backreferences): ${why.replace(/^error parsing regexp: /, '').replace(/: `.*$/su, '')}`;
  }
}

/** Compiles an anchored RE2 expression, as in Prometheus. Caches results, because walks repeat the same values. */
export function createPattern(pattern: string) {
  const expression = RE2JS.compile(pattern, RE2JS.DOTALL);
  const cached = memoize(text => expression.matches(text), MAX_CACHED);
  return {
    /** Returns whether the text matches; undefined if it is too long. */
    matches: (text: string): boolean | undefined => (text.length > MAX_TEXT ? undefined : cached(text)),
    toString: (): string => pattern,
    toJSON: (): string => pattern,
  };
}

const ALTERNATIVES = 'must have at least one of in, prefix, matches';

/** Returns the schema of a condition: at least one of `in`, `prefix` and `matches`. */
function alternatives<T extends z.ZodType<string>>(text: T) {
  const list = z.array(text).min(1, { error: 'must not be empty' });
  return z
    .strictObject({
      in: list.optional().describe('Accepted values.'),
      prefix: list.optional().describe('Accepted beginnings.'),
      matches: z
        .string()
        .min(1)
        .transform((pattern, context) => {
          const message = patternError(pattern);
          if (message === undefined) return createPattern(pattern);
          context.addIssue(message);
          return z.NEVER;
        })
        .optional()
        .describe('Regular expression (RE2) that must match the whole value. `.` also matches line breaks.'),
    })
    .refine(ways => Object.values(ways).some(way => way !== undefined), { error: ALTERNATIVES });
}

const text = alternatives(z.string().min(1));
const WHOLE = 'must be a whole number';
/** Numbers are compared as text. */
const digits = z
  .union([z.int().min(0), z.string().regex(/^\d+$/, { error: WHOLE })], { error: WHOLE })
  .transform(String);

export const conditions = z.strictObject({
  url: text.optional().describe('URL of the message.'),
  workflowUrl: text.optional().describe('URL of the workflow.'),
  failureCallbackUrl: text.optional().describe('URL of the failure callback.'),
  label: text.optional().describe('Any label of the message.'),
  queue: text.optional().describe('Queue.'),
  topic: text.optional().describe('Topic (URL group).'),
  schedule: text.optional().describe('Schedule.'),
  flowControlKey: text.optional().describe('Flow-control key.'),
  responseStatus: alternatives(digits)
    .optional()
    .describe('Digits of the last HTTP status, such as `{ prefix: [5] }`.'),
} satisfies Readonly<Record<ConditionKey, z.ZodType>>);

export const NO_MATCH = `must have at least one of ${CONDITION_KEYS.join(', ')}: an empty match would match everything`;
