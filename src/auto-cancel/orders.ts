import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import { BREAKERS, type Breaker, type JournalEntry } from '../model/journal.ts';
import { NO_ACCOUNT, type Store } from '../store/store.ts';
import { parseRow } from './brake.ts';
import { type Journal, readJournalState, storedLines } from './journal.ts';
import type { JournalState } from './journal-state.ts';
import { waitsForApproval } from './waits.ts';

/** Operators' orders: one agent-wide row each, by UUID, until the replica that holds the account has executed it. */
const ORDERS = 'auto-cancel/orders/';

const text = z.string().regex(/\S/, { error: 'must not be blank' });
/** Milliseconds since the Unix epoch. */
const time = z.number();
const orderRow = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('approve'),
    at: time,
    account: z.string(),
    action: z.string(),
    /** The policy by which approval was requested. */
    policy: z.string(),
    /** Until when that request may be approved. */
    until: time,
    by: text,
  }),
  z.strictObject({
    kind: z.literal('reset-breaker'),
    at: time,
    account: z.string(),
    breaker: z.enum(BREAKERS),
    /** Time of the line that opened it. */
    openedAt: time,
    by: text,
    reason: text,
  }),
]);
type Order = Readonly<z.infer<typeof orderRow>>;

interface OrderAccount {
  readonly name: string;
  /** Hash of the rules in force. */
  readonly policy: string;
  readonly journal: Journal;
}

export interface OrdersDeps {
  readonly store: Pick<Store, 'scan' | 'commit'>;
  /** Accounts that this process holds. */
  accounts(): readonly OrderAccount[];
  isConfigured(account: string): boolean;
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Log;
}

/** Milliseconds after which orders to accounts that are not configured are deleted. */
const KEPT = 86_400_000;

const RULES_CHANGED =
  'the rules have changed since approval was requested; the agent requests it again if the callback is still stuck';

/** Why an order is refused; undefined if it is executed. */
function refusalOf(order: Order, { policy, journal: { state } }: OrderAccount, now: number): string | undefined {
  if (order.kind === 'approve') {
    const action = state.actions.get(order.action);
    if (!action || !waitsForApproval(action, now)) return 'the action does not wait for approval';
    // Other rules would act on the approval than those that requested it.
    if (action.asker?.policy !== order.policy || policy !== order.policy) return RULES_CHANGED;
    // Another rule may have requested it.
    return action.approvalUntil === order.until ? undefined : 'approval has been requested again since';
  }
  const open = state.breakers.get(order.breaker);
  if (!open) return 'the breaker is not open';
  return open.at === order.openedAt ? undefined : 'the breaker has opened again since';
}

function lineOf(order: Order, id: string, refusal: string | undefined, at: number): JournalEntry {
  const { kind, by } = order;
  const about = kind === 'approve' ? order.action : order.breaker;
  if (refusal !== undefined) return { at, step: 'order_refused', kind, about, by, reason: refusal, order: id };
  if (kind === 'approve') return { at, action: order.action, step: 'approved', by, order: id };
  return { at, step: 'breaker_reset', breaker: order.breaker, by, reason: order.reason, order: id };
}

/** Executes the orders that wait. `serve` is called once a second. It tries each order, then rejects with the first StoreError. */
export function createOrders({ store, accounts, isConfigured, clock, log }: OrdersDeps): { serve(): Promise<void> } {
  const unreadable = new Set<string>();
  const remove = (key: string) => store.commit(NO_ACCOUNT, [{ key, value: null }]);

  async function obey(order: Order, id: string, account: OrderAccount): Promise<void> {
    const { journal } = account;
    // The line of a rejected commit may be in the store.
    await journal.confirm();
    // A known order was executed by a process that could not delete its row.
    if (journal.state.orders.has(id)) return;
    const now = clock.now();
    const refusal = refusalOf(order, account, now);
    await journal.append([lineOf(order, id, refusal, now)]);
    if (refusal === undefined) log.warn({ ...order, order: id }, 'operator command executed');
    else log.warn({ ...order, order: id, why: refusal }, 'operator command refused');
  }

  /** `account`: undefined unless this process holds it. */
  async function processOrder(key: string, order: Order | undefined, account: OrderAccount | undefined): Promise<void> {
    if (order && account) {
      await obey(order, key.slice(ORDERS.length), account);
      await remove(key);
    } else if (order && !isConfigured(order.account) && Math.abs(clock.now() - order.at) > KEPT) {
      await remove(key);
      log.warn({ ...order }, 'an order to an account that is not configured was deleted');
    } else if (!order && !unreadable.has(key)) {
      unreadable.add(key);
      log.warn({ key }, 'an order that this version cannot read is ignored');
    }
  }

  return {
    async serve() {
      const rows = await store.scan(NO_ACCOUNT, ORDERS);
      if (rows.size === 0) return;
      const own = new Map(accounts().map(account => [account.name, account]));
      const orders = [...rows].map(([key, value]) => ({ key, order: parseRow(orderRow, value) }));
      const errors: unknown[] = [];
      for (const { key, order } of orders.sort((a, b) => (a.order?.at ?? 0) - (b.order?.at ?? 0))) {
        await processOrder(key, order, order && own.get(order.account)).catch(
          (error: unknown) => void errors.push(error),
        );
      }
      if (errors.length > 0) throw errors[0];
    },
  };
}

export interface Placed {
  readonly id: string;
  readonly account: string;
}

export interface PlacingDeps {
  readonly store: Pick<Store, 'scan' | 'sizes' | 'commit'>;
  readonly accounts: readonly string[];
  /** The journal of an account that this process holds; undefined: it is read from the store. */
  stateOf?(account: string): JournalState | undefined;
  readonly clock: Clock;
}

/** Characters of an action's id that are needed to find it. */
const SHORTEST = 6;

async function* statesOf({ store, accounts, stateOf }: PlacingDeps) {
  for (const account of accounts)
    yield [account, stateOf?.(account) ?? (await readJournalState(store, account))] as const;
}

/** Writes orders in one transaction. Throws a RangeError for an invalid order. */
async function place(orders: readonly Order[], store: PlacingDeps['store']): Promise<readonly Placed[]> {
  const placed = orders.map(order => ({ id: randomUUID(), account: order.account, order }));
  const issue = orders.flatMap(order => orderRow.safeParse(order).error?.issues ?? [])[0];
  if (issue) throw new RangeError([...issue.path, issue.message].join(': '));
  await store.commit(
    NO_ACCOUNT,
    placed.map(({ id, order }) => ({ key: ORDERS + id, value: JSON.stringify(order) })),
  );
  return placed;
}

/** An approval that was ordered, or why there is nothing to approve. */
export type Approval =
  | { readonly placed: Placed; readonly action: string; readonly rule: string }
  | { readonly why: string };

/**
 * Orders the approval of the action that waits under this id, at least its first 6 characters, or of this dlqId. Rejects with
 * StoreError, with an Error if a journal is damaged, and with a RangeError for a blank operator.
 */
export async function orderApproval(asked: { action: string; by: string }, deps: PlacingDeps): Promise<Approval> {
  const at = deps.clock.now();
  const found: { account: string; action: string; rule: string; policy: string; until: number }[] = [];
  for await (const [account, { actions }] of statesOf(deps)) {
    for (const action of actions.values()) {
      const { id, rule, target, asker, approvalUntil: until = 0 } = action;
      const isMeant = target.dlqId === asked.action || (asked.action.length >= SHORTEST && id.startsWith(asked.action));
      if (isMeant && waitsForApproval(action, at))
        found.push({ account, action: id, rule, policy: asker?.policy ?? '', until });
    }
  }
  const [one, another] = found;
  if (!one) return { why: `no action ${asked.action} waits for approval` };
  if (another) return { why: `${found.length} actions begin with ${asked.action}: give more characters` };
  const { account, action, rule, policy, until } = one;
  const [placed] = await place([{ kind: 'approve', at, account, action, policy, until, by: asked.by }], deps.store);
  return { placed: placed as Placed, action, rule };
}

/** Orders the reset of a breaker in every account in which it is open. Rejects as `orderApproval` does. */
export async function orderReset(
  { breaker, by, reason }: { breaker: Breaker; by: string; reason: string },
  deps: PlacingDeps,
) {
  const at = deps.clock.now();
  const open: { account: string; at: number; reason: string }[] = [];
  for await (const [account, { breakers }] of statesOf(deps)) {
    const found = breakers.get(breaker);
    if (found) open.push({ account, ...found });
  }
  if (open.length === 0) return [];
  const orders = open.map(each => {
    return { kind: 'reset-breaker', at, account: each.account, breaker, openedAt: each.at, by, reason } as const;
  });
  const placed = await place(orders, deps.store);
  return open.map((each, index) => ({ placed: placed[index] as Placed, openedAt: each.at, reason: each.reason }));
}

/** Share of the time to wait that lies between two checks. */
const CHECKS = 100;

/** The journal line of an order, which is among the newest: the whole journal may not fit into memory. */
async function findLine({ id, account }: Placed, store: Pick<Store, 'scan' | 'sizes'>) {
  const blocks = storedLines(store, account, Number.POSITIVE_INFINITY).blocks();
  for (let block = await blocks.next(); !block.done; block = await blocks.next()) {
    const line = block.value.find(each => 'order' in each && each.order === id);
    if (line) return line;
  }
  return undefined;
}

/** Result of an order; `waiting`: no agent has executed it yet. */
export type Executed = 'done' | 'waiting' | { readonly refused: string };

/** Waits up to `waitMs` for the execution of an order, which stays if there is none. Rejects with StoreError or the signal's reason. */
export async function resultOf(
  placed: Placed,
  store: Pick<Store, 'scan' | 'sizes'>,
  { waitMs, clock, signal }: { readonly waitMs: number; readonly clock: Clock; readonly signal: AbortSignal },
): Promise<Executed> {
  const end = clock.monotonic() + waitMs;
  while ((await store.scan(NO_ACCOUNT, ORDERS + placed.id)).size > 0) {
    if (clock.monotonic() >= end) return 'waiting';
    await clock.sleep(waitMs / CHECKS, signal);
  }
  const line = await findLine(placed, store);
  if (line?.step === 'order_refused') return { refused: line.reason };
  return line ? 'done' : { refused: 'the order was deleted' };
}
