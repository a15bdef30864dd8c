import type { Config } from '../config/schema.ts';
import { identityOf } from './identity.ts';

type Named = readonly { readonly name: string }[];

/** Names of a list that a line says; the others are counted. */
const MOST_NAMED = 10;

/** Keys of a section by themselves, as deep as it is a section on both sides. */
function keyChanges(path: string, before: unknown, after: unknown): string[] {
  if (identityOf(before) === identityOf(after)) return [];
  const isSection = (value: unknown): value is Record<string, unknown> =>
    typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
  // What has one key of several is a choice, not a section.
  const isDeep = isSection(before) && isSection(after) && path.split('.').length < 3;
  if (!isDeep) return [`${path} changed`];
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return keys.flatMap(key => keyChanges(`${path}.${key}`, before[key], after[key]));
}

/** The first of them in words; the others are counted. */
export function someOf(words: readonly string[]): string {
  const rest = words.length > MOST_NAMED ? ` and ${words.length - MOST_NAMED} more` : '';
  return words.slice(0, MOST_NAMED).join(', ') + rest;
}

/** What became of the items of a list, by name: `alerts.rules: A changed, B added, C removed`. */
export function listChanges(
  path: string,
  before: ReadonlyMap<string, unknown>,
  after: ReadonlyMap<string, unknown>,
): string[] {
  const words = [...new Set([...before.keys(), ...after.keys()])].flatMap(name => {
    if (!after.has(name)) return [`${name} removed`];
    if (!before.has(name)) return [`${name} added`];
    return before.get(name) === after.get(name) ? [] : [`${name} changed`];
  });
  return words.length > 0 ? [`${path}: ${someOf(words)}`] : [];
}

/** The identities of what has a name. */
export const byName = (items: Named): Map<string, string> => new Map(items.map(item => [item.name, identityOf(item)]));

/** Accounts of both that expose other families, where the section for all does not say so. */
function exposureChanges(before: Config, after: Config): string[] {
  if (identityOf(before.collect.families) !== identityOf(after.collect.families)) return [];
  const exposed = ({ accounts }: Config, { accounts: others }: Config) => {
    const names = new Set(others.map(({ name }) => name));
    return byName(
      accounts.filter(({ name }) => names.has(name)).map(({ name, collect }) => ({ name, ...collect.families })),
    );
  };
  return listChanges('accounts.collect.families', exposed(before, after), exposed(after, before));
}

/** What differs between two configurations, but for accounts, of which it has what they expose; one line each, in the order of their sections. Names only, and no secret. */
export function changesBetween(before: Config, after: Config): string[] {
  const named = (path: string, of: (config: Config) => Named) =>
    listChanges(path, byName(of(before)), byName(of(after)));
  const section = (path: string, of: (config: Config) => unknown) => keyChanges(path, of(before), of(after));
  return [
    ...section('server', ({ server }) => server),
    ...section('upstream', ({ upstream }) => upstream),
    ...section('log', ({ log }) => log),
    ...section('store', ({ store: { history } }) => ({ history })),
    ...section('accountFiles', ({ accountFiles }) => accountFiles),
    ...section('collect', ({ collect }) => collect),
    ...exposureChanges(before, after),
    ...section('objectives', ({ objectives }) => objectives),
    ...named('schedules', ({ schedules }) => schedules),
    ...section('staleness', ({ staleness }) => staleness),
    ...section('push', ({ push }) => push),
    ...section('tracing', ({ tracing }) => tracing),
    ...section('alerts', ({ alerts: { rules: _, notifiers: __, ...alerts } }) => alerts),
    ...named('alerts.rules', ({ alerts }) => alerts.rules),
    ...named('alerts.notifiers', ({ alerts }) => alerts.notifiers),
    ...section('heartbeat', ({ heartbeat }) => heartbeat),
    ...section('autoCancel', ({ autoCancel: { rules: _, ...autoCancel } }) => autoCancel),
    ...named('autoCancel.rules', ({ autoCancel }) => autoCancel.rules),
  ];
}
