/**
 * Compares reported problems with expected lines: `critical messages_failing 7..62 – 90..120`. The first time or range is the
 * start, the second one the end. Without it, the problem lasts until the end. Lines that begin with `may` are optional.
 */
import { expect } from 'vitest';
import { type Episode, lineOf, play } from './play.ts';
import type { Situation } from './situation.ts';

/** Kinds that are not sent by default. */
const OFF: ReadonlySet<string> = new Set(['dlq_first_entry', 'dlq_old']);

const LINE =
  /^(?<may>may )?(?<what>(?:critical|warning|info) \w+(?: \([^)]*\))?)(?: (?<from>\d+)(?:\.\.(?<by>\d+))?(?: – (?<end>\d+)(?:\.\.(?<endBy>\d+))?)?)?$/;

interface Expected {
  readonly text: string;
  readonly what: string;
  readonly isOptional: boolean;
  matches(episode: Episode): boolean;
}

const isWithin = (value: number | undefined, from: string | undefined, by = from) =>
  from === undefined ? value === undefined : value !== undefined && value >= Number(from) && value <= Number(by);

function parse(text: string): Expected {
  const parts = LINE.exec(text)?.groups;
  if (!parts) throw new Error(`not an expected line: ${text}`);
  const { may, what = '', from, by, end, endBy } = parts;
  const isAnytime = from === undefined;
  return {
    text,
    what,
    isOptional: may !== undefined,
    matches: episode => isAnytime || (isWithin(episode.from, from, by) && isWithin(episode.to, end, endBy)),
  };
}

const whatOf = ({ severity, kind, subject }: Episode) =>
  `${severity} ${kind}${subject === undefined ? '' : ` (${subject})`}`;

/** Returns the differences as text; empty if exactly the expected problems were reported. */
function differences(episodes: readonly Episode[], lines: readonly string[], only?: string): string {
  const expected = lines.map(parse);
  const names = new Set(expected.map(({ what }) => what));
  const counted = episodes.filter(each => {
    if (only !== undefined && each.kind !== only) return false;
    return names.has(whatOf(each)) || (each.severity !== 'info' && (only !== undefined || !OFF.has(each.kind)));
  });
  const byName = Map.groupBy(counted, whatOf);
  const missing = expected.flatMap(({ what, text, isOptional, matches }) => {
    const [first, ...others] = byName.get(what) ?? [];
    byName.set(what, others);
    if (!first) return isOptional ? [] : `expected ${text}`;
    return matches(first) ? [] : `expected ${text}, reported ${lineOf(first)}: ${first.text}`;
  });
  const more = [...byName.values()].flat().map(each => `reported ${lineOf(each)}: ${each.text}`);
  return [...missing, ...more].join('\n');
}

/**
 * Plays a situation and expects exactly these problems. Problems of severity info and kinds that are not sent by default count
 * only if they are expected. `only`: the kind to compare; default: all.
 */
export async function expectProblems(situation: Situation, lines: readonly string[], only?: string): Promise<void> {
  const found = differences(await play(situation), lines, only);
  expect(found, found).toBe('');
}
