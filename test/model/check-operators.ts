/**
 * Checks, based on the journal, the DELETEs and the orders, that operators' orders are executed exactly once and as given.
 * Shares no code with the agent.
 */
import type { JournalEntry } from '../../src/model/journal.ts';
import type { Process } from './agent.ts';
import type { Line } from './journal-lines.ts';
import type { Order } from './operators.ts';

/** A sent DELETE. */
export interface SentDelete {
  readonly action: string;
  readonly attempt: number;
  /** Position of the DELETE in the world's sequence of events. */
  readonly sequence: number;
}

export interface OrderWorld {
  readonly orders: readonly Order[];
  readonly lines: readonly Line[];
  /** DELETEs that have been sent by any process so far. */
  readonly sent: readonly SentDelete[];
}

type Intent = Extract<JournalEntry, { step: 'intent' }>;

/** Returns the last intent that the process committed for the dead letter `id`. */
export function intentOf(id: string, process: Process, lines: readonly Line[]): (Line & { entry: Intent }) | undefined {
  return lines.findLast(
    (line): line is Line & { entry: Intent } =>
      line.process === process && line.entry.step === 'intent' && line.entry.target.id === id,
  );
}

/** Returns the latest pause or resume that was written before `before`. */
function lastStop(orders: readonly Order[], before: number): Order | undefined {
  return orders
    .filter(({ kind, written }) => (kind === 'pause' || kind === 'resume') && written !== undefined && written < before)
    .toSorted((a, b) => (b.written ?? 0) - (a.written ?? 0))[0];
}

/** Whether a resume was written after the pause and before `before`. */
function isResumed(orders: readonly Order[], pause: Order, before: number): boolean {
  return orders.some(
    ({ kind, written = Number.NEGATIVE_INFINITY }) =>
      kind === 'resume' && written > (pause.written ?? pause.given) && written < before,
  );
}

/** Checks that an operator approved exactly the request that was shown, under the current policy. */
function checkApproval(intent: Line & { entry: Intent }, process: Process, { orders, lines }: OrderWorld): string[] {
  const { approvedBy, action, rule } = intent.entry;
  const order = orders.find(({ kind, by }) => kind === 'approve' && by === approvedBy);
  if (!order?.seen) return ['no operator approved it'];
  const wrong: string[] = [];
  const asking = lines.findLast(
    ({ entry, sequence }) =>
      entry.step === 'awaiting_approval' && entry.action === action && sequence < intent.sequence,
  );
  if (order.seen.entry.action !== action) wrong.push('the operator approved another action');
  if (!asking || asking.sequence > order.read) wrong.push('approval was requested after the operator approved');
  if (asking?.entry.step === 'awaiting_approval' && asking.entry.rule !== rule) wrong.push('another rule was approved');
  if (asking?.policy !== JSON.stringify(process.config.autoCancel)) wrong.push('the operator saw another policy');
  return wrong;
}

/** Returns the reasons why pauses, approvals or earlier DELETEs forbid this DELETE. */
export function checkSending(id: string, process: Process, now: number, world: OrderWorld): string[] {
  const { orders, lines, sent } = world;
  const intent = intentOf(id, process, lines);
  if (!intent) return ['this process has committed no intent'];
  const wrong: string[] = [];
  const returned = orders.some(
    order => order.kind === 'pause' && order.result === 'done' && !isResumed(orders, order, now),
  );
  if (returned) wrong.push('a pause has returned');
  // The agent must read the pause row again after its intent is committed.
  const last = lastStop(orders, intent.returned ?? intent.sequence);
  if (last?.kind === 'pause' && !isResumed(orders, last, now))
    wrong.push('a pause was written before the response of the intent');
  const { action, attempt, mode } = intent.entry;
  if (sent.some(each => each.action === action && each.attempt === attempt)) wrong.push('it was sent for this intent');
  if (process.isClosed) wrong.push('the account is closed in this process');
  if (mode === 'approve') wrong.push(...checkApproval(intent, process, world));
  return wrong;
}

/** Returns the situations that the tally counts for a DELETE. */
export function situationsOf(process: Process, now: number, { orders, lines }: OrderWorld): string[] {
  const isTakenOver = lines.some(line => line.process !== process);
  return [
    ...(Number.isFinite(process.leaseLeft()) ? ['DELETE by a replica'] : []),
    ...(isTakenOver ? ['DELETE after a takeover'] : []),
    ...(lastStop(orders, now)?.kind === 'resume' ? ['DELETE after a resume'] : []),
  ];
}

/** Journal steps that record an order. */
const ORDERED = ['paused', 'resumed', 'breaker_reset', 'approved', 'order_refused'];

/**
 * Checks the newest journal line: no intent may follow a pause, and an operator must have given the order that a line records.
 * An order must be executed only once, and only while it is valid.
 */
export function checkLine(line: Line, { orders, lines }: Pick<OrderWorld, 'orders' | 'lines'>): string[] {
  const { entry, sequence } = line;
  if (entry.step === 'intent' && lastStop(orders, sequence)?.kind === 'pause')
    return ['an intent is committed after a pause'];
  if (!('by' in entry) || !ORDERED.includes(entry.step)) return [];
  const order = orders.find(({ by }) => by === entry.by);
  if (!order) return [`a line ${entry.step} that no operator ordered`];
  const wrong: string[] = [];
  if ('reason' in entry && entry.step !== 'order_refused' && entry.reason !== order.reason)
    wrong.push(`a line ${entry.step} combines orders`);
  const isEarlier = (other: Line) => other !== line && 'by' in other.entry && other.entry.by === entry.by;
  if (lines.some(isEarlier)) wrong.push(`an order has two lines, the second is ${entry.step}`);
  if (entry.step !== 'breaker_reset') return wrong;
  const opened = lines.findLast(
    other =>
      other.entry.step === 'breaker_opened' && other.entry.breaker === entry.breaker && other.sequence < sequence,
  );
  if (opened && opened.sequence > order.read) wrong.push('a reset closes a breaker that opened after it was ordered');
  return wrong;
}

/** Returns a violation for each committed order that no value in the store mentions. `stored`: all values in the store. */
export function checkAudit({ orders }: Pick<OrderWorld, 'orders'>, stored: readonly string[]): string[] {
  return orders.flatMap(({ kind, by, written }) =>
    written === undefined || stored.some(value => value.includes(by))
      ? []
      : [`the ${kind} by ${by} is missing in the store`],
  );
}
