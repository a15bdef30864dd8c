import { z } from 'zod';
import { AccountName, Maybe, Num, Time } from './parts.ts';

export const PredicateView = z.object({
  name: z.string(),
  holds: z.union([z.boolean(), z.literal('unknown')]),
  found: z.string(),
  asked: z.string(),
});

export const RuleFindingView = z.object({
  rule: z.string(),
  verdict: z.enum(['stuck', 'not_stuck', 'unknown', 'no_match']),
  reason: z.string(),
  predicates: z.array(PredicateView),
});

/** Query parameters of GET /api/v1/auto-cancel. */
export const AutoCancelQuery = z.object({ account: AccountName.optional().describe('Only this account.') });

/** A tracked failure callback, and why it is or is not cancelled. `GET /api/v1/explain` has the evidence. */
export const Candidate = z.object({
  account: z.string(),
  dlqId: Maybe(z.string()),
  messageId: Maybe(z.string()),
  action: Maybe(z.string()),
  url: Maybe(z.string()).describe('URL of the message without query, user and password.'),
  workflowUrl: Maybe(z.string()),
  firstSeenAt: Time,
  lastSeenAt: Time,
  snapshots: z.int(),
  owner: Maybe(z.object({ rule: z.string(), mode: z.string() })),
  verdict: RuleFindingView.shape.verdict.describe('Result of the deciding rule.'),
  reason: Maybe(z.string()).describe('Of the verdict; null if no rule matches.'),
  held: Maybe(z.string()).describe('Why a stuck callback is not cancelled, as a keyword.'),
  heldText: Maybe(z.string()).describe('`held` as a sentence.'),
  attempts: z.int(),
  outcome: Maybe(z.string()),
  mayApprove: z.boolean().describe('Whether the action waits for an operator’s approval.'),
});
export type Candidate = z.output<typeof Candidate>;

const JournalLine = z.object({
  at: Time,
  account: z.string(),
  action: Maybe(z.string()),
  step: z.string(),
  rule: Maybe(z.string()),
  id: Maybe(z.string()),
  text: z.string().describe('One sentence.'),
});

export const AccountBrakes = z.object({
  account: z.string(),
  paused: Maybe(z.object({ by: z.string(), reason: z.string(), at: Time })),
  breakers: z.array(
    z.object({ breaker: z.string(), open: z.boolean(), since: Maybe(Time), reason: Maybe(z.string()) }),
  ),
  wouldOpen: Maybe(z.string()).describe('Why the breaker `candidates` would open if a rule could cancel callbacks.'),
  budgetRemaining: Maybe(Num),
  candidates: z.int().describe('Stuck failure callbacks.'),
  tracked: z.int().describe('Tracked failure callbacks.'),
  unresolved: z.int(),
});

export const AutoCancelView = z.object({
  now: Time,
  mode: z.enum(['off', 'plan', 'enforce']),
  stopFile: z.object({ path: z.string(), present: z.boolean() }),
  rules: z.array(
    z.object({
      name: z.string(),
      mode: z.string(),
      expires: Maybe(z.string()),
      candidates: z.int(),
      budgetRemaining: Maybe(Num).describe(
        'Cancels that the hourly limit of the rule still allows: the minimum over all accounts.',
      ),
    }),
  ),
  accounts: z.array(AccountBrakes),
  candidates: z.array(Candidate).describe('At most 200 callbacks, stuck ones first.'),
  tracked: z.int().describe('Tracked failure callbacks.'),
  journal: z.array(JournalLine).describe('The newest 100 lines of the last 7 days, newest first.'),
});
export type AutoCancelView = z.output<typeof AutoCancelView>;
