/** Operators. Each issues one order to the agent through the store, from a separate process. */
import { pauseAutoCancel, resumeAutoCancel } from '../../src/auto-cancel/brake.ts';
import { orderApproval, orderReset, resultOf } from '../../src/auto-cancel/orders.ts';
import type { Breaker } from '../../src/model/journal.ts';
import { isGuardFailed } from '../../src/store/store.ts';
import type { Disk, OutsideStore } from './disk.ts';
import type { Line } from './journal-lines.ts';
import { createProcessClock, createProcessLife } from './process-life.ts';
import { ACCOUNT, MINUTE } from './settings.ts';
import { owners, type Time } from './time.ts';

/** An operator's order. Times are positions in the world's sequence of events. */
export interface Order {
  readonly kind: 'pause' | 'resume' | 'approve' | 'reset-breaker';
  /** Name of the operator. Like the reason, it is unique, so that it identifies the order in the journal. */
  readonly by: string;
  readonly reason: string;
  readonly breaker?: Breaker | undefined;
  /** The approval request that the operator saw. */
  readonly seen?: Line | undefined;
  readonly given: number;
  /** When the command last read the store before it committed its first row. */
  read: number;
  /** When the command committed its first row; undefined if it has not. */
  written: number | undefined;
  /** `waiting`: no agent has executed the order yet. `unchanged`: there was nothing to do. */
  result: 'done' | 'waiting' | 'unchanged' | 'refused' | undefined;
  returned: number | undefined;
}

export type Given = Pick<Order, 'kind' | 'breaker' | 'seen'> & {
  /** Time until the operator's process is killed (ms); undefined if it is not killed. */
  readonly killedAfter?: number | undefined;
  /** Time until the command receives each response (ms). */
  readonly latency?: number | undefined;
};

const LATENCY = 30;

export interface Operators {
  readonly orders: readonly Order[];
  give(given: Given): void;
}

export interface OperatorsDeps {
  readonly time: Time;
  readonly machine: { readonly time: Time; readonly offset: number };
  readonly disk: Disk;
  /** Returns the number of the next event in the world. */
  next(): number;
  returned(order: Order): void;
  /** Called when a command fails with an error that no operator should get. */
  failed(order: Order, error: unknown): void;
}

/** Factor by which operators' commands poll more slowly than real commands. */
const SLOWNESS = 10;

export function createOperators({ time, machine, disk, next, ...on }: OperatorsDeps): Operators {
  const orders: Order[] = [];

  /** Executes the order as the command line does. */
  async function execute(order: Order, store: OutsideStore, life: ReturnType<typeof createProcessLife>) {
    const { kind, by, reason } = order;
    const clock = createProcessClock(machine, life);
    const slow = { ...clock, sleep: (ms: number, signal?: AbortSignal) => clock.sleep(ms * SLOWNESS, signal) };
    const { signal } = new AbortController();
    const placing = { store, accounts: [ACCOUNT], clock: slow };
    if (kind === 'pause') {
      await pauseAutoCancel(store, order, { clock: slow, signal, waiting: () => undefined });
      return 'done';
    }
    if (kind === 'resume') return (await resumeAutoCancel(store, order, clock)) ? 'done' : 'unchanged';
    const placed = [];
    if (kind === 'approve') {
      const { action = '', target } = (order.seen?.entry ?? {}) as { action?: string; target?: { dlqId?: string } };
      // Identify the action by its own id or by the dead letter's id.
      const found = await orderApproval(
        { action: order.given % 2 === 0 ? action : (target?.dlqId ?? ''), by },
        placing,
      );
      if ('why' in found) return 'refused';
      placed.push(found.placed);
    } else {
      const resets = await orderReset({ breaker: order.breaker ?? 'errors', by, reason }, placing);
      placed.push(...resets.map(reset => reset.placed));
    }
    const waiting = { waitMs: MINUTE, clock: slow, signal };
    const results = await Promise.all(placed.map(each => resultOf(each, store, waiting)));
    if (results.some(result => typeof result !== 'string')) return 'refused';
    if (results.length === 0) return 'unchanged';
    return results.includes('waiting') ? 'waiting' : 'done';
  }

  async function run(order: Order, life: ReturnType<typeof createProcessLife>, latency: number): Promise<void> {
    const store = disk.outsideFor(Object.assign(life, { latency }), {
      read() {
        if (order.written === undefined) order.read = next();
      },
      committed() {
        order.written ??= next();
      },
    });
    try {
      order.result = await execute(order, store, life);
    } catch (error) {
      if (!isGuardFailed(error)) on.failed(order, error);
      order.result = 'refused';
    }
    order.returned = next();
    on.returned(order);
  }

  return {
    orders,
    give({ killedAfter, latency = LATENCY, ...given }) {
      const number = orders.length;
      const order: Order = {
        ...given,
        by: `operator-${number}.`,
        reason: `reason-${number}.`,
        given: next(),
        read: 0,
        written: undefined,
        result: undefined,
        returned: undefined,
      };
      orders.push(order);
      const life = createProcessLife();
      if (killedAfter !== undefined) time.after(killedAfter, life.kill);
      void owners.run(life, () => run(order, life, latency));
    },
  };
}
