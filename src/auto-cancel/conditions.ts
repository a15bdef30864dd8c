import { bareAddress } from '../kit/bare-address.ts';
import { printable } from '../kit/printable.ts';
import type { Holds, Predicate } from '../model/finding.ts';
import type { DlqEntry } from '../model/message.ts';
import { type Alternatives, CONDITION_KEYS, type Conditions } from './rule-options.ts';

/** What an entry says of each key; nothing where it does not report it. */
const VALUES: Readonly<Record<keyof Conditions, (entry: DlqEntry) => readonly (string | number | undefined)[]>> = {
  url: ({ url }) => [url],
  workflowUrl: ({ workflowUrl }) => [workflowUrl],
  label: ({ labels }) => labels,
  queue: ({ queue }) => [queue],
  topic: ({ topic }) => [topic],
  schedule: ({ schedule }) => [schedule],
  flowControlKey: ({ flowControlKey }) => [flowControlKey],
  responseStatus: ({ responseStatus }) => [responseStatus],
};

const LONGEST_SHOWN = 200;

/** Keys whose values are addresses; any other that looks like one is treated as one. */
const ADDRESSES: ReadonlySet<keyof Conditions> = new Set(['url', 'workflowUrl']);

/** Text of the service for people's eyes: one short line, no control characters, no query, which may hold a secret. */
function shown(key: keyof Conditions, values: readonly string[]): string {
  const bare = values.map(text => (ADDRESSES.has(key) || /^\s*https?:/i.test(text) ? bareAddress(text) : text));
  const line = printable(bare.join(', '));
  return line.length > LONGEST_SHOWN ? `${line.slice(0, LONGEST_SHOWN).toWellFormed()}…` : line;
}

function matchesOne({ in: list, prefix, matches }: Alternatives, value: string): Holds {
  if (list?.includes(value) || prefix?.some(start => value.startsWith(start))) return true;
  return matches === undefined ? false : (matches.matches(value) ?? 'unknown');
}

/** Whether any of the values matches; unknown where there is none, or none that could be tried. */
function matchesAny(ways: Alternatives, values: readonly string[]): Holds {
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

const not = (holds: Holds): Holds => (holds === 'unknown' ? holds : !holds);

/** A predicate for each key of `match` or `except` that is named; of `except` it holds when the entry is no exception. */
export function judgeConditions(section: 'match' | 'except', conditions: Conditions, entry: DlqEntry): Predicate[] {
  return CONDITION_KEYS.flatMap((key): Predicate[] => {
    const ways = conditions[key];
    if (!ways) return [];
    const values = VALUES[key](entry).flatMap(value => (value === undefined ? [] : [String(value)]));
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
