import type { Config } from '../config/schema.ts';
import { identityOf } from '../kit/identity.ts';
import { NO_ACCOUNT } from '../store/store.ts';

/** Maximum number of names in a line. */
const MAX_NAMED = 10;

export function someOf(words: readonly string[]): string {
  const rest = words.length > MAX_NAMED ? ` and ${words.length - MAX_NAMED} more` : '';
  return words.slice(0, MAX_NAMED).join(', ') + rest;
}

/** Fields of a log line about accounts that this replica gained and lost. */
export function handoverFields(gained: readonly string[], lost: readonly string[]): Readonly<Record<string, string>> {
  const named = (accounts: readonly string[]) =>
    someOf(accounts.map(account => (account === NO_ACCOUNT ? '(shared: heartbeat)' : account)));
  return {
    ...(gained.length > 0 && { gained: named(gained) }),
    ...(lost.length > 0 && { lost: named(lost) }),
  };
}

/** Returns `accounts: A added, B changed, C removed`, or nothing. */
function accountChanges(before: Config['accounts'], after: Config['accounts']): string[] {
  const [last, next] = [before, after].map(accounts => new Map(accounts.map(each => [each.name, identityOf(each)])));
  const words = [...new Set([...(last?.keys() ?? []), ...(next?.keys() ?? [])])].flatMap(name => {
    if (!next?.has(name)) return [`${name} removed`];
    if (!last?.has(name)) return [`${name} added`];
    return last.get(name) === next.get(name) ? [] : [`${name} changed`];
  });
  return words.length > 0 ? [`accounts: ${someOf(words)}`] : [];
}

/** Returns a line for each section that differs between two configurations. Lines have names only, and no secret. */
export function changesBetween(before: Config, after: Config): string[] {
  const { accounts, ...sections } = after;
  const changed = Object.entries(sections)
    .filter(([name, section]) => identityOf(section) !== identityOf(before[name as keyof Config]))
    .map(([name]) => `${name} changed`);
  return [...accountChanges(before.accounts, accounts), ...changed];
}
