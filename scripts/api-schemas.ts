import { z } from 'zod';
import { BREAKERS, FINAL_OUTCOMES } from '../src/model/journal.ts';
import { PredicateView, RuleFindingView } from '../src/status/api/auto-cancel.ts';
import { Num } from '../src/status/api/parts.ts';

/** Schemas that only describe the API. The code that creates these responses has its own types. */

const EpochMilliseconds = Num.describe('Milliseconds since the Unix epoch.');

/** Response of GET /api/v1/explain. */
export const Explanation = z.object({
  account: z.string(),
  dlqId: z.string().optional(),
  messageId: z.string().optional(),
  url: z.string().optional().describe('Without query, user and password.'),
  workflowUrl: z.string().optional(),
  action: z.string().optional(),
  firstSeenAt: EpochMilliseconds,
  lastSeenAt: EpochMilliseconds,
  snapshots: z.int().describe('Number of complete walks that listed it.'),
  owner: z.object({ rule: z.string(), mode: z.string() }).optional().describe('The deciding rule.'),
  findings: z.array(RuleFindingView),
  held: z.string().optional().describe('Why a stuck callback is not cancelled, as a keyword.'),
  paused: z.object({ at: EpochMilliseconds, by: z.string(), reason: z.string() }).optional(),
  attempts: z.int(),
  outcome: z.enum([...FINAL_OUTCOMES, 'open']).optional(),
  mayApprove: z.boolean(),
});

const Target = z.object({
  account: z.string(),
  id: z.string().describe('Id to send in a cancel.'),
  dlqId: z.string().optional(),
  messageId: z.string().optional(),
  workflowRunId: z.string().optional(),
  url: z.string().optional(),
  workflowUrl: z.string().optional(),
  responseStatus: z.int().optional(),
  episode: z.string(),
});

const Mode = z.enum(['plan', 'approve', 'enforce']);

const Answer = z.object({
  kind: z.enum(['accepted', 'refused', 'missing', 'denied', 'unknown', 'limited', 'not_sent']),
  status: z.int().optional(),
  retryAfter: Num.optional(),
  why: z.string().optional(),
});

const line = <T extends z.ZodRawShape>(shape: T) => z.object({ account: z.string(), at: EpochMilliseconds, ...shape });
const of = { action: z.string().describe('Id of the action for one episode of a callback.') };
const order = { order: z.string().optional().describe('UUID of the operator’s order.') };
const operator = { by: z.string(), reason: z.string() };
const evidence = z.array(PredicateView);

/** Schema of a line of GET /api/v1/journal. */
export const JournalEntry = z.discriminatedUnion('step', [
  line({
    step: z.enum(['marked', 'awaiting_approval']),
    ...of,
    rule: z.string(),
    mode: Mode.optional(),
    policy: z.string().optional(),
    target: Target,
    evidence,
    until: EpochMilliseconds.describe('End of grace or approval (ms since the Unix epoch).'),
  }),
  line({ step: z.literal('cleared'), ...of, reason: z.string() }),
  line({ step: z.literal('approved'), ...of, by: z.string(), ...order }),
  line({
    step: z.literal('intent'),
    ...of,
    attempt: z.int(),
    rule: z.string(),
    mode: z.enum(['approve', 'enforce']),
    blind: z.boolean(),
    target: Target,
    evidence,
    sendBy: EpochMilliseconds,
    policy: z.string(),
    replica: z.string().optional().describe('The acting process, if several share the store.'),
    approvedBy: z.string().optional(),
  }),
  line({ step: z.literal('answered'), ...of, attempt: z.int(), answer: Answer }),
  line({
    step: z.literal('ended'),
    ...of,
    outcome: z.enum(FINAL_OUTCOMES),
    rule: z.string(),
    mode: Mode,
    reason: z.string(),
    target: Target,
    evidence: evidence.optional(),
    unproven: z
      .boolean()
      .optional()
      .describe(
        'Whether the response did not confirm the cancel, so it is unknown which client cancelled the callback.',
      ),
  }),
  line({ step: z.enum(['paused', 'resumed']), ...operator, ...order }),
  line({ step: z.literal('breaker_opened'), breaker: z.enum(BREAKERS), reason: z.string() }),
  line({ step: z.literal('breaker_reset'), breaker: z.enum(BREAKERS), ...operator, ...order }),
  line({
    step: z.literal('order_refused'),
    kind: z.enum(['approve', 'reset-breaker']),
    about: z.string().describe('The action or the breaker.'),
    ...operator,
    order: z.string(),
  }),
]);

/** An error in a configuration file. Lines and columns start at 1. */
export const ReloadErrorView = z.object({
  file: z.string(),
  line: z.int().optional(),
  column: z.int().optional(),
  message: z.string(),
});

/** Response of POST /-/reload. */
export const Reloaded = z.object({ changed: z.array(z.string()).describe('Changed sections and accounts.') });
export const NotReloaded = z.object({ faults: z.array(ReloadErrorView) });

/** Response of POST /api/v1/auto-cancel/approve. */
export const Approved = z.object({
  account: z.string(),
  action: z.string(),
  rule: z.string(),
  holds: z.array(z.string()).describe('What must end before anything is sent: a pause, open breakers.'),
});

/** Response of POST /api/v1/auto-cancel/pause and /api/v1/auto-cancel/resume. */
export const Stopped = z.object({
  accounts: z.array(z.string()),
  before: z
    .object({
      at: Num.describe('Milliseconds since the Unix epoch.'),
      by: z.string().optional(),
      reason: z.string(),
    })
    .optional()
    .describe('The previous pause, if any.'),
});

/** Response of GET /api/v1/sd: targets in the format of Prometheus HTTP service discovery. */
export const Targets = z.array(z.object({ targets: z.array(z.string()), labels: z.record(z.string(), z.string()) }));

/** Body of an error response. */
export const Failure = z.object({ error: z.string().describe('The error and the permitted values, as one sentence.') });
