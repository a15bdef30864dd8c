import { z } from 'zod';
import { identityOf } from '../kit/identity.ts';
import { ACCOUNT_LIMITS, type AccountLimits, type RecordedAccount } from '../model/account.ts';
import type { AccountOptions } from '../upstream/options.ts';
import { type Collector, type CollectorKind, familiesOf, ImplausibleResponse, type Rounds } from './collector.ts';

export interface PlanFacts {
  /** The record of the last token reset; undefined until it has been read. */
  readonly record: RecordedAccount | undefined;
  readonly limits: AccountLimits;
}

const word = z.string().min(1).max(64).optional();
const amount = z.number().nonnegative();

const Recorded = z.object({
  resetAt: z.int(),
  token: z.string().max(64),
  plan: word,
  state: word,
  limits: z.partialRecord(z.enum(ACCOUNT_LIMITS), amount),
  dlqRetentionSeconds: amount.optional(),
});

const { gauge } = familiesOf<PlanFacts>();

const families = {
  limit: gauge({
    name: 'delivery_account_limit',
    help: 'Limit of the account’s plan in bytes, seconds or a count, as recorded by the last token reset or as configured.',
    labels: ['limit'],
    values: { limit: ACCOUNT_LIMITS },
    pick: ({ limits }) => Object.entries(limits).map(([limit, value]) => ({ labels: { limit }, value })),
  }),
};

const ROW = 'record';

/** Reads the plan from the record of the last token reset, without a request. Configured limits are the fallback. */
export const accountPlan: CollectorKind<PlanFacts, typeof families> & { readonly rounds: Rounds } = {
  name: 'account',
  title: 'Limits of the plan',
  families,
  rounds: { record: { every: 15_000, requests: 0, priority: 'background' } },
  // Plan limits stay valid until the next token reset, so they are never withdrawn.
  auxiliary: ['record'],
};

/**
 * Creates the collector of the account's plan. `recorded`: reads the record of the last token reset; undefined before the first
 * reset.
 */
export function createAccountPlan(
  recorded: () => Promise<unknown>,
  configured: () => AccountLimits = () => ({}),
): Collector<PlanFacts, PlanFacts, never> {
  const factsOf = (record: RecordedAccount | undefined): PlanFacts => ({
    record,
    limits: { ...configured(), ...record?.limits },
  });
  return {
    ...accountPlan,
    restore(rows) {
      const row = rows.get(ROW);
      return factsOf(row === undefined ? undefined : (JSON.parse(row) as RecordedAccount));
    },
    async observe() {
      const { data: read, success } = Recorded.optional().safeParse(await recorded());
      if (!success) throw new ImplausibleResponse('the account record of the last token reset is invalid');
      return {
        fold(memory) {
          const isNewer = read !== undefined && read.resetAt > (memory.record?.resetAt ?? Number.NEGATIVE_INFINITY);
          const current = factsOf(isNewer ? read : memory.record);
          const isSame = !isNewer && identityOf(current.limits) === identityOf(memory.limits);
          const facts = isSame ? memory : current;
          return { memory: facts, facts, changes: isNewer ? [{ key: ROW, value: JSON.stringify(read) }] : [] };
        },
        more: undefined,
      };
    },
  };
}

/** Returns the retention of the dead-letter queue (s): as configured, else from the record of the last token reset. */
export const retentionOf = ({ retention }: Pick<AccountOptions, 'retention'>, plan: PlanFacts | undefined) =>
  retention.dlq === null ? plan?.record?.dlqRetentionSeconds : retention.dlq / 1000;
