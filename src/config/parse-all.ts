import type { z } from 'zod';
import type { Path } from './errors.ts';

const nameless = (kind: string) => (number: PropertyKey) => `${kind}-${String(number)}-without-a-name`;
const NAMELESS = /^(account|rule|notifier|schedule)-\d+-without-a-name$/;

/** Whether a name is a placeholder. */
export const isNameless = (name: string) => NAMELESS.test(name);

/** Placeholders by path; `*` stands for an index. */
const PLACEHOLDERS: Readonly<Record<string, (number: PropertyKey) => unknown>> = {
  'accounts.*.name': nameless('account'),
  'accounts.*.baseUrl': number => `https://stand-in-${String(number)}.invalid`,
  'accounts.*.region': () => 'stand-in',
  'accounts.*.token': number => ({ env: `STAND_IN_${String(number)}` }),
  'autoCancel.rules.*.name': nameless('rule'),
  'autoCancel.rules.*.match': () => ({ label: { in: ['stand-in'] } }),
  'autoCancel.rules.*.expires': () => '2999-12-31',
  'autoCancel.rules.*.acceptUnverified': () => true,
  'autoCancel.rules.*.stuckWhen.inProgressFor': () => '366d',
  'autoCancel.rules.*.stuckWhen.seenFor': () => '366d',
  'alerts.rules.*.name': number => `AlertWithoutName${String(number)}`,
  'alerts.rules.*.when': () => ({ above: { metric: 'delivery_up', value: 1 } }),
  'alerts.notifiers.*.name': nameless('notifier'),
  'alerts.notifiers.*.webhook.url': () => 'https://stand-in.invalid',
  'alerts.notifiers.*.webhook.secret': () => ({ env: 'STAND_IN' }),
  'schedules.*.name': nameless('schedule'),
  'schedules.*.match': () => ({ label: 'stand-in' }),
  'schedules.*.cron': () => '0 0 1 1 *',
  'alerts.silences.*.match': () => ({ stand_in: '' }),
  'alerts.silences.*.reason': () => 'stand-in',
  'alerts.silences.*.until': () => '2999-12-31T00:00:00Z',
  'alerts.silences.*.windows': () => [{ cron: '0 0 * * *', for: '1h' }],
  'alerts.silences.*.windows.*.cron': () => '0 0 * * *',
  'alerts.silences.*.windows.*.for': () => '1h',
  'heartbeat.url': () => 'https://stand-in.invalid',
};

/** Returns a placeholder for an invalid value, so that the rest of its item can be checked. */
function placeholderFor(path: Path): unknown {
  const id = path.map(step => (typeof step === 'number' ? '*' : String(step))).join('.');
  const number = path.find(step => typeof step === 'number') ?? 0;
  return Object.hasOwn(PLACEHOLDERS, id) ? PLACEHOLDERS[id]?.(number) : undefined;
}

/** Keys whose checks do not depend on other keys. */
const INDEPENDENT: readonly string[] = ['name', 'expires'];

/** Keys that checks of other keys depend on. If one is invalid, other errors may be consequences. */
const DECIDING: readonly string[] = [
  'alertmanager',
  'assumeMaxRetries',
  'enabled',
  'evidence',
  'format',
  'from',
  'inProgressFor',
  'regionalBaseUrl',
  'seenFor',
  'stuckWhen',
  'webhook',
];

const idOf = (path: Path) => JSON.stringify(path);
const isWithin = (path: Path, outer: Path) => outer.every((step, index) => path[index] === step);

/** Returns the list item or section that contains a path. */
function itemOf(path: Path): Path {
  const number = path.findLastIndex(step => typeof step === 'number');
  return path.slice(0, 1 + Math.max(0, number));
}

/** Parses a value and returns all errors. Schema checks need valid types, so invalid parts are omitted and the rest is parsed again. */
export function parseAll<T>(schema: z.ZodType<T>, value: unknown) {
  const omitted = new Map<string, { readonly path: Path; readonly instead: unknown }>();
  /** Original indexes of the remaining items, by list. */
  let kept = new Map<string, readonly number[]>();

  function rest(part: unknown, path: Path): unknown {
    const out = omitted.get(idOf(path));
    if (out) return out.instead;
    if (Array.isArray(part)) {
      const items = part.map((item, index) => ({ index, left: rest(item, [...path, index]) }));
      const left = items.filter(({ index, left }) => left !== undefined || part[index] === undefined);
      if (left.length < items.length) {
        kept.set(
          idOf(path),
          left.map(({ index }) => index),
        );
      }
      return left.map(({ left }) => left);
    }
    if (typeof part !== 'object' || part === null) return part;
    const given = new Set([...Object.keys(part), ...insertedAt(path)]);
    return Object.fromEntries(
      [...given].flatMap(key => {
        const left = rest((part as Record<string, unknown>)[key], [...path, key]);
        return left === undefined ? [] : [[key, left]];
      }),
    );
  }

  function insertedAt(path: Path): string[] {
    return [...omitted.values()]
      .filter(out => out.instead !== undefined && out.path.length === path.length + 1 && isWithin(out.path, path))
      .map(out => String(out.path.at(-1)));
  }

  function original(path: Path): Path {
    const found: PropertyKey[] = [];
    for (const step of path) {
      const left = typeof step === 'number' ? kept.get(idOf(found)) : undefined;
      found.push(left?.[step as number] ?? step);
    }
    return found;
  }

  /** Whether omitted values may have caused an issue. */
  function isConsequence(issue: z.core.$ZodIssue, path: Path): boolean {
    const outs = [...omitted.values()];
    if (outs.some(out => isWithin(out.path, path))) return true;
    const decides = (out: Path) => DECIDING.includes(String(out.at(-1) ?? '')) && isWithin(out, itemOf(path));
    return (
      issue.code === 'custom' && !INDEPENDENT.includes(String(path.at(-1) ?? '')) && outs.some(out => decides(out.path))
    );
  }

  /** Omits the value at a path or, if that is not possible, the nearest enclosing value. */
  function omit(path: Path): void {
    for (let at = path; at.length > 0; at = at.slice(0, -1)) {
      const known = omitted.get(idOf(at));
      const instead = known ? undefined : placeholderFor(at);
      const isThere = valueAt(value, at) !== undefined;
      if ((known && known.instead === undefined) || (!isThere && instead === undefined && !known)) continue;
      omitted.set(idOf(at), { path: at, instead });
      if (instead !== undefined || isThere) return;
    }
    omitted.set(idOf([]), { path: [], instead: undefined });
  }

  const issues: z.core.$ZodIssue[] = [];
  for (;;) {
    kept = new Map();
    // `jitless`: compiling the schemas takes longer than parsing one configuration.
    const parsed = schema.safeParse(omitted.size === 0 ? value : rest(value, []), { jitless: true });
    if (parsed.success || omitted.has(idOf([]))) {
      return {
        /** Paths refer to the given value. */
        issues,
        /** The value without invalid parts; undefined if nothing remains. */
        data: parsed.data,
        original,
        isOmitted: (path: Path): boolean => [...omitted.values()].some(out => isWithin(path, out.path)),
      };
    }
    const found = parsed.error.issues.map(issue => ({ ...issue, path: [...original(issue.path)] }));
    issues.push(...found.filter(issue => !isConsequence(issue, issue.path)));
    for (const issue of found) {
      if (issue.code === 'unrecognized_keys') for (const key of issue.keys) omit([...issue.path, key]);
      else omit(issue.path);
    }
  }
}

/** Returns the value at a path; undefined if there is none. */
export function valueAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (part, step) =>
      typeof part === 'object' && part !== null ? (part as Record<PropertyKey, unknown>)[step] : undefined,
    value,
  );
}
