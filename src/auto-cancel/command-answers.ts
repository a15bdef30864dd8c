import { z } from 'zod';
import type { Answer, Command } from './commands.ts';

/** An action that an account has under the name by which it is to be approved. */
const waiting = z.strictObject({ account: z.string(), action: z.string(), rule: z.string() });
const found = z.strictObject({ found: z.array(waiting) });
/** The state before a command: the pause that lasted, or why the breaker was open. `at`: milliseconds since the Unix epoch. */
const before = z.strictObject({ at: z.number(), by: z.string().optional(), reason: z.string() });
const stopped = z.strictObject({ accounts: z.array(z.string()), before: before.optional() });

/** The result of `pause`, `resume` and `reset-breaker`. Without `before`: there was no pause, and the breaker was not open. */
export type StopResult = z.infer<typeof stopped>;

/** What an account says that does not know the action. */
export const notWaiting = (action: string) => `no action ${action} waits for approval`;
export const ambiguous = (count: number, action: string) =>
  `${count} actions begin with ${action}: give more characters`;

function mergedStop(answers: readonly Answer[]): Answer {
  const results = answers.flatMap(answer => (answer.ok ? (stopped.safeParse(answer.result).data ?? []) : []));
  const first = results.flatMap(({ before }) => before ?? []).sort((a, b) => a.at - b.at)[0];
  const result: StopResult = { accounts: results.flatMap(({ accounts }) => accounts), ...(first && { before: first }) };
  return { ok: true, result };
}

/** `asked`: what the operator called it. Nothing was approved where an account only says that it has such an action. */
function mergedApproval(asked: string, answers: readonly Answer[], missing: readonly string[]): Answer {
  const refusal = answers.find(answer => !answer.ok && answer.why !== notWaiting(asked));
  const done = answers.find(answer => answer.ok && waiting.safeParse(answer.result).success);
  if (done ?? refusal) return done ?? (refusal as Answer);
  const all = answers.flatMap(answer => (answer.ok ? (found.safeParse(answer.result).data?.found ?? []) : []));
  if (all.length > 1) return { ok: false, why: ambiguous(all.length, asked) };
  if (missing.length > 0) return { ok: false, why: `no answer from the accounts ${missing.join(', ')}: try again` };
  return all.length === 1 ? { ok: true, result: { found: all } } : { ok: false, why: notWaiting(asked) };
}

/** The one action that was found and is still to be approved, by its whole id; undefined: that is not what was answered. */
export const onlyFound = (result: unknown): string | undefined => found.safeParse(result).data?.found[0]?.action;

/** What the answers of accounts say together. `accounts`: those that were asked. */
export function merged(command: Command, accounts: readonly string[], answers: ReadonlyMap<string, Answer>): Answer {
  const given = accounts.flatMap(account => answers.get(account) ?? []);
  const missing = accounts.filter(account => !answers.has(account));
  const said = (answer: Answer): Answer => (missing.length > 0 ? { ...answer, missing } : answer);
  if (command.kind === 'approve') return mergedApproval(command.action, given, missing);
  const refusal = given.find(({ ok }) => !ok);
  if (refusal) return said(refusal);
  if (command.kind !== 'explain') return said(mergedStop(given));
  return said({
    ok: true,
    result: given.flatMap(answer => (answer.ok && Array.isArray(answer.result) ? answer.result : [])),
  });
}
