import type { Answer } from './commands.ts';

/** The explanations of all accounts together. `accounts`: those that were asked. */
export function merged(accounts: readonly string[], answers: ReadonlyMap<string, Answer>): Answer {
  const given = accounts.flatMap(account => answers.get(account) ?? []);
  const missing = accounts.filter(account => !answers.has(account));
  const result = given.flatMap(answer => (answer.ok && Array.isArray(answer.result) ? answer.result : []));
  return { ok: true, result, ...(missing.length > 0 && { missing }) };
}
