import { identityOf } from '../kit/identity.ts';
import { someOf } from '../kit/text.ts';
import type { Config } from './schema.ts';

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

/** Returns a line for each changed section, without secrets. */
export function changesBetween(before: Config, after: Config): string[] {
  const { accounts, ...sections } = after;
  const changed = Object.entries(sections)
    .filter(([name, section]) => identityOf(section) !== identityOf(before[name as keyof Config]))
    .map(([name]) => `${name} changed`);
  return [...accountChanges(before.accounts, accounts), ...changed];
}
