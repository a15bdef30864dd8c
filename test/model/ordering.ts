/** Turns steps of a life into orders: immediately, or when the next approval is requested or the next breaker opens. */
import type { Breaker } from '../../src/model/journal.ts';
import { type Line, openBreakers } from './journal-lines.ts';
import type { Given } from './operators.ts';
import type { Step } from './steps.ts';
import type { Time } from './time.ts';

type StepOf<Kind extends Step['kind']> = Extract<Step, { kind: Kind }>;

export type OrderStep = StepOf<'pause' | 'resume' | 'reset' | 'approve'>;

export interface Ordering {
  add(step: OrderStep): void;
  /** Called after a journal line has been committed. */
  committed(line: Line): void;
}

export function createOrdering(time: Time, lines: readonly Line[], give: (given: Given) => void): Ordering {
  /** The latest approval request that is not yet approved. */
  let asking: Line | undefined;
  /** Orders that wait for the next approval request, or for the next opening of a breaker. */
  const approvals: StepOf<'approve'>[] = [];
  const resets: StepOf<'reset'>[] = [];

  function approve(seen: Line, { soon, killedAfter, latency }: StepOf<'approve'>): void {
    asking = undefined;
    time.after(soon, () => give({ kind: 'approve', seen, latency, killedAfter: killedAfter ?? undefined }));
  }

  function reset({ soon, again, killedAfter, latency }: StepOf<'reset'>, breaker: Breaker): void {
    const order = { kind: 'reset-breaker', breaker, killedAfter: killedAfter ?? undefined } as const;
    time.after(soon, () => give({ ...order, latency }));
    if (again !== null) time.after(soon + again, () => give(order));
  }

  return {
    add(step) {
      switch (step.kind) {
        case 'approve':
          if (asking === undefined) approvals.push(step);
          else approve(asking, step);
          return;
        case 'pause':
          give({ kind: 'pause', killedAfter: step.killedAfter ?? undefined });
          if (step.resumedAfter !== null) time.after(step.resumedAfter, () => give({ kind: 'resume' }));
          return;
        case 'resume':
          return give({ kind: 'resume', killedAfter: step.killedAfter ?? undefined });
        case 'reset': {
          const [open] = openBreakers(lines);
          if (open === undefined && step.awaits) resets.push(step);
          else reset(step, open ?? step.breaker);
        }
      }
    },
    committed(line) {
      const { entry } = line;
      if (entry.step === 'awaiting_approval') {
        const step = approvals.shift();
        if (step === undefined) asking = line;
        else approve(line, step);
      } else if (entry.step === 'breaker_opened') {
        const step = resets.shift();
        if (step) reset(step, entry.breaker);
      }
    },
  };
}
