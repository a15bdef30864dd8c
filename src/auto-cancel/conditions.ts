import { z } from 'zod';
import { bareAddress, printable } from '../kit/text.ts';
import type { Predicate, Tristate } from '../model/finding.ts';
import type { DlqEntry } from '../model/message.ts';
import { createPattern, patternError } from './pattern.ts';

const ALTERNATIVES = 'must name at least one of in, prefix, matches';

/** Returns the schema of a condition: at least one of `in`, `prefix` and `matches`. */
function alternatives<T extends z.ZodType<string>>(text: T) {
  const list = z.array(text).min(1, { error: 'must not be empty' });
  return z
    .strictObject({
      in: list.optional().describe('Exact values.'),
      prefix: list.optional().describe('Beginnings of values.'),
      matches: z
        .string()
        .min(1)
        .transform((pattern, context) => {
          const message = patternError(pattern);
          if (message === undefined) return createPattern(pattern);
          context.addIssue({ code: 'custom', message });
          return z.NEVER;
        })
        .optional()
        .describe('Regular expression (RE2) for the whole value; `.` matches line breaks.'),
    })
    .refine(ways => Object.values(ways).some(way => way !== undefined), { error: ALTERNATIVES });
}

type Alternatives = z.output<ReturnType<typeof alternatives<z.ZodString>>>;

const text = alternatives(z.string().min(1));
const WHOLE = 'must be a whole number';
/** Numbers are compared as text. */
const digits = z
  .union([z.int().min(0), z.string().regex(/^\d+$/, { error: WHOLE })], { error: WHOLE })
  .transform(String);

export const conditions = z.strictObject({
  url: text.optional().describe('URL of the message. One match of `in`, `prefix` or `matches` is enough.'),
  workflowUrl: text.optional().describe('As `url`: URL of the workflow.'),
  failureCallbackUrl: text.optional().describe('As `url`: URL of the failure callback.'),
  label: text.optional().describe('As `url`: any of the labels.'),
  queue: text.optional().describe('As `url`: queue.'),
  topic: text.optional().describe('As `url`: topic (URL group).'),
  schedule: text.optional().describe('As `url`: schedule.'),
  flowControlKey: text.optional().describe('As `url`: flow-control key.'),
  responseStatus: alternatives(digits)
    .optional()
    .describe('As `url`: digits of the last status, such as `{ prefix: [5] }`.'),
});

export type Conditions = z.output<typeof conditions>;
export const CONDITION_KEYS = Object.keys(conditions.shape) as (keyof Conditions)[];

export const NO_MATCH = `must name at least one of ${CONDITION_KEYS.join(', ')}: an empty match would match everything`;

const valuesOf = (key: keyof Conditions, entry: DlqEntry) =>
  (key === 'label' ? entry.labels : [entry[key]]).flatMap(value => (value === undefined ? [] : [String(value)]));

const MAX_SHOWN = 200;

/** Condition keys whose values are URLs. */
const ADDRESSES: ReadonlySet<keyof Conditions> = new Set(['url', 'workflowUrl', 'failureCallbackUrl']);

/** Formats text from the service without control characters and URL queries, which may contain secrets. */
function shown(key: keyof Conditions, values: readonly string[]): string {
  const bare = values.map(text => (ADDRESSES.has(key) || /^\s*https?:/i.test(text) ? bareAddress(text) : text));
  const line = printable(bare.join(', '));
  return line.length > MAX_SHOWN ? `${line.slice(0, MAX_SHOWN).toWellFormed()}…` : line;
}

function matchesOne({ in: list, prefix, matches }: Alternatives, value: string): Tristate {
  if (list?.includes(value) || prefix?.some(start => value.startsWith(start))) return true;
  return matches === undefined ? false : (matches.matches(value) ?? 'unknown');
}

/** Whether any value matches; `unknown` if there are no values, or if none matches and one is too long to test. */
function matchesAny(ways: Alternatives, values: readonly string[]): Tristate {
  if (values.length === 0) return 'unknown';
  const each = values.map(value => matchesOne(ways, value));
  return each.includes(true) || (each.includes('unknown') ? 'unknown' : false);
}

function wordsOf({ in: list, prefix, matches }: Alternatives): string {
  return [
    list && `one of ${list.join(', ')}`,
    prefix && `beginning with ${prefix.join(' or ')}`,
    matches && `matching ${matches}`,
  ]
    .filter(words => words !== undefined)
    .join(', or ');
}

const not = (holds: Tristate): Tristate => (holds === 'unknown' ? holds : !holds);

/** Returns one predicate per configured key. A predicate of `except` holds if the key does not match. */
export function evaluateConditions(section: 'match' | 'except', conditions: Conditions, entry: DlqEntry): Predicate[] {
  return CONDITION_KEYS.flatMap((key): Predicate[] => {
    const ways = conditions[key];
    if (!ways) return [];
    const values = valuesOf(key, entry);
    const found = matchesAny(ways, values);
    return [
      {
        name: `${section}.${key}`,
        holds: section === 'match' ? found : not(found),
        found: values.length === 0 ? 'not reported' : shown(key, values),
        asked: section === 'match' ? wordsOf(ways) : `not ${wordsOf(ways)}`,
      },
    ];
  });
}
