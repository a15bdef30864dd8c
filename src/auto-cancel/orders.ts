import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import { printable } from '../kit/text.ts';
import { BREAKERS, type Breaker, type JournalEntry } from '../model/journal.ts';
import { NO_ACCOUNT, type Store } from '../store/store.ts';
import { operatorText, parseRow, pauseOf, readBrake } from './brake.ts';
import { type Journal, readJournalState, storedBlocks } from './journal.ts';
import type { Action, JournalState } from './journal-state.ts';
import { waitsForApproval } from './waits.ts';

/** Prefix of agent-wide rows with operators' orders, deleted after execution. */
const ORDERS = 'auto-cancel/orders/';

/** Milliseconds since the Unix epoch. */
const time = z.number();
const orderRow = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('approve'),
    at: time,
    account: z.string(),
    action: z.string(),
    policy: z.string(),
    until: time,
    by: operatorText,
  }),
  z.strictObject({
    kind: z.literal('reset-breaker'),
    at: time,
    account: z.string(),
    breaker: z.enum(BREAKERS),
    /** Time of the journal line that opened the breaker. */
    openedAt: time,
    by: operatorText,
    reason: operatorText,
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
  /** Returns the open accounts. */
  accounts(): readonly OrderAccount[];
  readonly clock: Pick<Clock, 'now'>;
  readonly log: Log;
}

const RULES_CHANGED =
  'the rules have changed since approval was requested; the agent requests it again if the callback is still stuck';

/** Returns why an order is refused, or undefined. */
function refusalOf(order: Order, { policy, journal: { state } }: OrderAccount, now: number): string | undefined {
  if (order.kind === 'approve') {
    const action = state.actions.get(order.action);
    if (!action || !waitsForApproval(action, now)) return 'the action does not wait for approval';
    // An approval applies only to the rules that requested it.
    if (action.requester?.policy !== order.policy || policy !== order.policy) return RULES_CHANGED;
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

/** Returns a function that executes pending orders. It tries all of them, then rejects with the first error. */
export function createOrders({ store, accounts, clock, log }: OrdersDeps): () => Promise<void> {
  const unreadable = new Set<string>();

  async function execute(order: Order, id: string, account: OrderAccount): Promise<void> {
    const { journal } = account;
    await journal.confirm();
    if (journal.state.orders.has(id)) return;
    const now = clock.now();
    const refusal = refusalOf(order, account, now);
    await journal.append([lineOf(order, id, refusal, now)]);
    if (refusal === undefined) log.warn({ ...order, order: id }, 'operator command executed');
    else log.warn({ ...order, order: id, why: refusal }, 'operator command refused');
  }

  /** Executes an order, unless its account is not open, or the order is unreadable. */
  async function processOrder(key: string, order: Order | undefined, account: OrderAccount | undefined): Promise<void> {
    if (order && account) {
      await execute(order, key.slice(ORDERS.length), account);
      await store.commit(NO_ACCOUNT, [{ key, value: null }]);
    } else if (!order && !unreadable.has(key)) {
      unreadable.add(key);
      log.warn({ key }, 'ignored an operator command that this version cannot read');
    }
  }

  return async () => {
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
  };
}

export interface PlacedOrder {
  readonly id: string;
  readonly account: string;
}

export interface PlacingDeps {
  readonly store: Pick<Store, 'scan' | 'sizes' | 'command'>;
  readonly accounts: readonly string[];
  /** Returns the journal state of an open account. The states of other accounts are read from the store. */
  stateOf?(account: string): JournalState | undefined;
  readonly clock: Clock;
}

const MIN_PREFIX = 6;

async function* statesOf({ store, accounts, stateOf }: PlacingDeps) {
  for (const account of accounts)
    yield [account, stateOf?.(account) ?? (await readJournalState(store, account))] as const;
}

/** Writes all orders in one transaction. Throws a RangeError for an invalid one. */
async function place(orders: readonly Order[], store: PlacingDeps['store']): Promise<readonly PlacedOrder[]> {
  const placed = orders.map(order => ({ id: randomUUID(), account: order.account, order }));
  const issue = orders.flatMap(order => orderRow.safeParse(order).error?.issues ?? [])[0];
  if (issue) throw new RangeError([...issue.path, issue.message].join(': '));
  await store.command(placed.map(({ id, order }) => ({ key: ORDERS + id, value: JSON.stringify(order) })));
  return placed;
}

/** Result of ordering an approval. `holds`: completions of "nothing is sent until …". */
export type Approval =
  | { readonly placed: PlacedOrder; readonly action: string; readonly rule: string; readonly holds: readonly string[] }
  | { readonly why: string };

/**
 * Orders the approval of an action by its id, a prefix of at least 6 characters, or its dlqId. Rejects with StoreError, a
 * RangeError for a blank operator, or an Error for a damaged journal.
 */
export async function orderApproval(requested: { action: string; by: string }, deps: PlacingDeps): Promise<Approval> {
  const at = deps.clock.now();
  const found: (Action & { account: string; breakers: readonly string[] })[] = [];
  let approvedBy: string | undefined;
  for await (const [account, { actions, breakers }] of statesOf(deps)) {
    for (const action of actions.values()) {
      const { id, target } = action;
      const isMeant =
        target.dlqId === requested.action || (requested.action.length >= MIN_PREFIX && id.startsWith(requested.action));
      if (!isMeant) continue;
      if (waitsForApproval(action, at)) found.push({ ...action, account, breakers: [...breakers.keys()] });
      else approvedBy ??= action.approvedBy;
    }
  }
  const [one, another] = found;
  if (!one && approvedBy !== undefined) {
    return { why: `the action ${requested.action} has already been approved by ${printable(approvedBy)}` };
  }
  const isShort = requested.action.length < MIN_PREFIX;
  const hint = isShort ? `: enter its dlqId, or at least ${MIN_PREFIX} characters of its id` : '';
  if (!one) return { why: `no action ${requested.action} waits for approval${hint}` };
  if (another) return { why: `${found.length} actions start with ${requested.action}: enter more characters` };
  const { account, id: action, rule, requester, approvalUntil: until = 0 } = one;
  const policy = requester?.policy ?? '';
  const [placed] = await place([{ kind: 'approve', at, account, action, policy, until, by: requested.by }], deps.store);
  const pause = pauseOf(await readBrake(deps.store), at);
  const holds = one.breakers.map(breaker => `the breaker ${breaker} is reset`);
  if (pause) holds.unshift(`the pause ends (${printable(`by ${pause.by}: ${pause.reason}`)})`);
  return { placed: placed as PlacedOrder, action, rule, holds };
}

/** Orders the reset of a breaker in every account with that breaker open. Rejects like `orderApproval`. */
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
  return open.map((each, index) => ({ placed: placed[index] as PlacedOrder, openedAt: each.at, reason: each.reason }));
}

const CHECKS = 100;

/** Searches the journal backwards, because it may not fit into memory. */
async function findLine({ id, account }: PlacedOrder, store: Pick<Store, 'scan' | 'sizes'>) {
  for await (const block of storedBlocks(store, account)) {
    const line = block.find(each => 'order' in each && each.order === id);
    if (line) return line;
  }
  return undefined;
}

/** `waiting`: no agent has executed the order yet. */
export type OrderResult = 'done' | 'waiting' | { readonly refused: string };

/**
 * Waits up to `waitMs` for the result of an order. An order without a result stays pending. Rejects with StoreError or the
 * signal's reason.
 */
export async function resultOf(
  placed: PlacedOrder,
  store: Pick<Store, 'scan' | 'sizes'>,
  { waitMs, clock, signal }: { readonly waitMs: number; readonly clock: Clock; readonly signal: AbortSignal },
): Promise<OrderResult> {
  const end = clock.monotonic() + waitMs;
  while ((await store.scan(NO_ACCOUNT, ORDERS + placed.id)).size > 0) {
    if (clock.monotonic() >= end) return 'waiting';
    await clock.sleep(waitMs / CHECKS, signal);
  }
  const line = await findLine(placed, store);
  if (line?.step === 'order_refused') return { refused: line.reason };
  return line ? 'done' : { refused: 'the command was deleted before it was executed' };
}
