import { bareAddress, cutText, printable } from '../kit/text.ts';
import type { Predicate, Tristate } from './finding.ts';
import type { DlqEntry } from './message.ts';

/** Fields of a dead letter to which conditions may refer. */
export const CONDITION_KEYS = [
  'url',
  'workflowUrl',
  'failureCallbackUrl',
  'label',
  'queue',
  'topic',
  'schedule',
  'flowControlKey',
  'responseStatus',
] as const;

export type ConditionKey = (typeof CONDITION_KEYS)[number];

/** One match of `in`, `prefix` or `matches` is enough. */
interface Alternatives {
  readonly in?: readonly string[] | undefined;
  readonly prefix?: readonly string[] | undefined;
  /** A compiled pattern for the whole value. `matches` returns undefined if the text is too long to test. */
  readonly matches?: { matches(text: string): boolean | undefined; toString(): string } | undefined;
}

export type Conditions = Readonly<Partial<Record<ConditionKey, Alternatives | undefined>>>;

/** Conditions on a dead letter, which must meet all of `match` and none of `except`. */
export interface EntrySelector {
  readonly match: Conditions;
  readonly except: Conditions;
}

const valuesOf = (key: ConditionKey, entry: DlqEntry) =>
  (key === 'label' ? entry.labels : [entry[key]]).flatMap(value => (value === undefined ? [] : [String(value)]));

const MAX_SHOWN = 200;

/** Condition keys with URLs as values. */
const ADDRESSES: ReadonlySet<ConditionKey> = new Set(['url', 'workflowUrl', 'failureCallbackUrl']);

/** Formats text from the service without control characters and URL queries, which may contain secrets. */
function shown(key: ConditionKey, values: readonly string[]): string {
  const bare = values.map(text => (ADDRESSES.has(key) || /^\s*https?:/i.test(text) ? bareAddress(text) : text));
  const line = printable(bare.join(', '));
  return line.length > MAX_SHOWN ? `${cutText(line, MAX_SHOWN)}…` : line;
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

/** Whether a selector surely selects an entry: no condition depends on a missing value. */
export const selectsEntry = ({ match, except }: EntrySelector, entry: DlqEntry): boolean =>
  [...evaluateConditions('match', match, entry), ...evaluateConditions('except', except, entry)].every(
    ({ holds }) => holds === true,
  );
