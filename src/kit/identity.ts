import { hash } from 'node:crypto';
import { Secret } from './secret.ts';

/** Converts a value for JSON, including types that JSON.stringify would drop or redact. */
function plain(value: unknown): unknown {
  if (value instanceof Secret) return ['secret', value.reveal()];
  if (value instanceof RegExp) return ['pattern', String(value)];
  if (value instanceof Date) return ['date', value.getTime()];
  if (value instanceof Map || value instanceof Set) return ['items', ...[...value].map(plain)];
  if (typeof value === 'number' && !Number.isFinite(value)) return ['number', String(value)];
  if (typeof value === 'function') throw new Error('a function has no identity');
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== 'object' || value === null) return value;
  // `toJSON` of a compiled value, such as a pattern, returns its source.
  if ('toJSON' in value && typeof value.toJSON === 'function') return ['text', plain(value.toJSON())];
  const entries = Object.entries(value).filter(([, inner]) => inner !== undefined);
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, inner]) => [key, plain(inner)]));
}

export const identityOf = (settings: unknown): string => hash('sha256', JSON.stringify(plain(settings)) ?? '');

/** Returns `identityOf` with a cache, because accounts share most of their settings objects. */
export function createIdentities(): (settings: object) => string {
  const known = new WeakMap<object, string>();
  return settings => {
    const identity = known.get(settings) ?? identityOf(settings);
    known.set(settings, identity);
    return identity;
  };
}
