import { z } from 'zod';
import { Duration } from '../kit/duration.ts';
import { ACCOUNT_LIMITS, type AccountLimits, type AccountRecord, type RecordedAccount } from '../model/account.ts';
import type { AccountUsage } from '../model/service.ts';
import type { Visible } from '../scheduler/board.ts';
import type { AccountOptions } from '../upstream/options.ts';
import { type Collector, type CollectorKind, familiesOf, type Rounds } from './collector.ts';

interface ReadRecord extends AccountRecord {
  readonly readAt: number;
  /** The last change of plan or state, such as `plan` from `free` to `paid`. */
  readonly change?: { readonly at: number; readonly text: string } | undefined;
}

/** Times are in milliseconds since the Unix epoch. */
export interface PlanFacts {
  /** The record of the last token reset; undefined until it has been read. */
  readonly reset?: RecordedAccount | undefined;
  readonly read?: ReadRecord | undefined;
  /** The newer of `reset` and `read`. */
  readonly record: AccountRecord | undefined;
  /** Limits of the record. Configured limits are the fallback. */
  readonly limits: AccountLimits;
  /** Numbers of the last read; undefined before the first one of this process. */
  readonly usage?: (Pick<AccountUsage, 'requestsToday' | 'dlqMessages'> & { readonly at: number }) | undefined;
}

const { gauge } = familiesOf<PlanFacts>();

const families = {
  limit: gauge({
    name: 'delivery_account_limit',
    help: 'Limit of the account’s plan (bytes, seconds or a number). Never withdrawn.',
    labels: ['limit'],
    values: { limit: ACCOUNT_LIMITS },
    isLasting: true,
    pick: ({ limits }) => Object.entries(limits).map(([limit, value]) => ({ labels: { limit }, value })),
  }),
  requests: gauge({
    name: 'delivery_account_requests_today',
    help: 'Requests of the account on the current UTC day, as of the last read of the management API.',
    pick: ({ usage }) => usage?.requestsToday,
  }),
  deadLetters: gauge({
    name: 'delivery_account_dlq_messages',
    help: 'Dead letters according to the management API. delivery_dlq_messages is the agent’s own number.',
    pick: ({ usage }) => usage?.dlqMessages,
  }),
};

const [RESET_ROW, READ_ROW] = ['record', 'read'];

export const usageOptions = z.strictObject({
  every: Duration.prefault('30m').describe(
    'Interval between reads of limits and usage from the management API. Each read takes two requests. Requires `paths.account`.',
  ),
});

const record = { every: 15_000, requests: 0, priority: 'background' } as const;

/**
 * Reads the plan from the record of the last token reset, without a request, and from the management API, if that is configured.
 * Configured limits are the fallback.
 */
export const accountPlan = {
  name: 'account',
  title: 'Limits and usage of the plan',
  families,
  rounds: ({ every }: z.output<typeof usageOptions>) => ({
    record,
    usage: { every, requests: 2, why: 'reads the account and its statistics', priority: 'background' },
  }),
  // Plan limits stay valid until the next token reset, so they are never withdrawn.
  auxiliary: ['record'],
  isOptional: true,
} satisfies CollectorKind<PlanFacts, typeof families> & { readonly rounds: (options: never) => Rounds };

/** Describes the differences between two records; undefined if equal. A value that one record lacks is not compared. */
function changeOf(before: AccountRecord | undefined, now: AccountRecord): string | undefined {
  const changes = (['plan', 'state'] as const).flatMap(name => {
    const [from, to] = [before?.[name], now[name]];
    return from === undefined || to === undefined || from === to ? [] : `${name} from ${from} to ${to}`;
  });
  return changes.length === 0 ? undefined : changes.join(', ');
}

interface PlanSources {
  /** Reads the record of the last token reset; undefined before the first reset. */
  readonly recorded: () => Promise<unknown>;
  readonly configured?: () => AccountLimits;
  /** Undefined if the management API is not read. */
  readonly usage?: z.output<typeof usageOptions> | undefined;
}

export function createAccountPlan({
  recorded,
  configured = () => ({}),
  usage: options,
}: PlanSources): Collector<PlanFacts, PlanFacts, never> {
  function factsOf({ reset, read, usage }: Pick<PlanFacts, 'reset' | 'read' | 'usage'>): PlanFacts {
    const record = read && read.readAt >= (reset?.resetAt ?? 0) ? read : reset;
    return { reset, read, usage, record, limits: { ...configured(), ...record?.limits } };
  }
  const rowOf = <Row>(rows: ReadonlyMap<string, string>, name: string) => {
    const row = rows.get(name);
    return row === undefined ? undefined : (JSON.parse(row) as Row);
  };
  return {
    ...accountPlan,
    rounds: options ? accountPlan.rounds(options) : { record },
    restore: (rows, last) =>
      factsOf({ reset: rowOf(rows, RESET_ROW), read: rowOf(rows, READ_ROW), usage: options && last?.usage }),
    recall: memory => memory,
    async observe({ api, round, now, signal }) {
      if (round === 'usage') {
        // Only the named values are kept, because the response contains tokens.
        const { plan, state, limits, dlqRetentionSeconds, requestsToday, dlqMessages } = await api.account(signal);
        const account: AccountRecord = { plan, state, limits, dlqRetentionSeconds };
        return {
          fold(memory) {
            const text = changeOf(memory.record, account);
            const change = text === undefined ? memory.read?.change : { at: now, text };
            const read: ReadRecord = { ...account, readAt: now, change };
            const facts = factsOf({ ...memory, read, usage: { at: now, requestsToday, dlqMessages } });
            return { memory: facts, facts, changes: [{ key: READ_ROW, value: JSON.stringify(read) }] };
          },
          more: undefined,
        };
      }
      // Written by `rotate-token`.
      const read = (await recorded()) as RecordedAccount | undefined;
      return {
        fold(memory) {
          const isNewer = (read?.resetAt ?? 0) > (memory.reset?.resetAt ?? 0);
          const facts = factsOf(isNewer ? { ...memory, reset: read } : memory);
          return { memory: facts, facts, changes: isNewer ? [{ key: RESET_ROW, value: JSON.stringify(read) }] : [] };
        },
        more: undefined,
      };
    },
  };
}

/** Returns the facts of the plan. The limits are valid regardless of their age. */
export const planOf = (shown: Visible<PlanFacts> | undefined): PlanFacts | undefined => shown?.now ?? shown?.committed;

/** Returns the retention of the dead-letter queue (s): as configured, else from the account's record. */
export const retentionOf = ({ retention }: Pick<AccountOptions, 'retention'>, plan: PlanFacts | undefined) =>
  retention.dlq === null ? plan?.record?.dlqRetentionSeconds : retention.dlq / 1000;
