import type { z } from 'zod';

type Path = readonly PropertyKey[];

const nameless = (kind: string) => (number: PropertyKey) => `${kind}-${String(number)}-without-a-name`;
const NAMELESS = /^(account|rule|notifier|schedule)-\d+-without-a-name$/;

/** Whether a name is a placeholder for a missing or invalid one. */
export const isNameless = (name: string) => NAMELESS.test(name);

/** By path, `*` for the number of an item. */
const STAND_INS: Readonly<Record<string, (number: PropertyKey) => unknown>> = {
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

/** Returns a placeholder for an invalid required value, so that the rest of its item can be checked. */
function standIn(path: Path): unknown {
  const id = path.map(step => (typeof step === 'number' ? '*' : String(step))).join('.');
  const number = path.find(step => typeof step === 'number') ?? 0;
  return Object.hasOwn(STAND_INS, id) ? STAND_INS[id]?.(number) : undefined;
}

/** Keys whose checks do not depend on other keys that may have been omitted. */
const INDEPENDENT: readonly string[] = ['name', 'expires'];

/** Keys that checks of other keys depend on: if one is invalid, errors of the others may be consequences. */
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

/** The item of a list, or the section, that a path is in. */
function itemOf(path: Path): Path {
  const number = path.findLastIndex(step => typeof step === 'number');
  return path.slice(0, 1 + Math.max(0, number));
}

/**
 * Reads a value of which anything may be wrong, and finds everything that is. Most checks of a schema run only where the
 * types below are right; so what is wrong is left out, and the rest read again, until nothing is.
 */
export function parseAll<T>(schema: z.ZodType<T>, value: unknown) {
  /** By the identifier of its path: what stands there instead. */
  const leftOut = new Map<string, { readonly path: Path; readonly instead: unknown }>();
  /** Of lists that are shorter now: which items are left. */
  let kept = new Map<string, readonly number[]>();

  function rest(part: unknown, path: Path): unknown {
    const out = leftOut.get(idOf(path));
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

  /** Keys that were missing, and have a stand-in now. */
  function insertedAt(path: Path): string[] {
    return [...leftOut.values()]
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

  /** Whether an issue may only be a consequence of omitted values. */
  function isConsequence(issue: z.core.$ZodIssue, path: Path): boolean {
    const outs = [...leftOut.values()];
    if (outs.some(out => isWithin(out.path, path))) return true;
    const decides = (out: Path) => DECIDING.includes(String(out.at(-1) ?? '')) && isWithin(out, itemOf(path));
    return (
      issue.code === 'custom' && !INDEPENDENT.includes(String(path.at(-1) ?? '')) && outs.some(out => decides(out.path))
    );
  }

  /** Leaves a place out, or what it is in, where that would not do. */
  function leaveOut(path: Path): void {
    for (let at = path; at.length > 0; at = at.slice(0, -1)) {
      const known = leftOut.get(idOf(at));
      const instead = known ? undefined : standIn(at);
      const isThere = valueAt(value, at) !== undefined;
      if ((known && known.instead === undefined) || (!isThere && instead === undefined && !known)) continue;
      leftOut.set(idOf(at), { path: at, instead });
      if (instead !== undefined || isThere) return;
    }
    leftOut.set(idOf([]), { path: [], instead: undefined });
  }

  const issues: z.core.$ZodIssue[] = [];
  for (;;) {
    kept = new Map();
    // `jitless`: to write code for each of a hundred schemas takes longer than to read a configuration by them.
    const parsed = schema.safeParse(leftOut.size === 0 ? value : rest(value, []), { jitless: true });
    if (parsed.success || leftOut.has(idOf([]))) {
      return {
        /** With paths in the given value. */
        issues,
        /** The value without its invalid parts; undefined if nothing is left. */
        data: parsed.data,
        /** Returns the path in the given value of a path in `data`. */
        original,
        /** Whether a part of the given value was omitted or replaced in `data`. */
        isLeftOut: (path: Path): boolean => [...leftOut.values()].some(out => isWithin(path, out.path)),
      };
    }
    const found = parsed.error.issues.map(issue => ({ ...issue, path: [...original(issue.path)] }));
    issues.push(...found.filter(issue => !isConsequence(issue, issue.path)));
    for (const issue of found) {
      if (issue.code === 'unrecognized_keys') for (const key of issue.keys) leaveOut([...issue.path, key]);
      else leaveOut(issue.path);
    }
  }
}

/** What stands at a path; undefined when nothing does. */
export function valueAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (part, step) =>
      typeof part === 'object' && part !== null ? (part as Record<PropertyKey, unknown>)[step] : undefined,
    value,
  );
}
