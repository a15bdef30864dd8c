import type { Input } from './cases/case.ts';
import { cutOff, ended, takenOver, vanished } from './course.ts';
import { replica } from './promtool.ts';
import { two } from './scene.ts';

/** Series of an account that moves between two replicas at minute `at`, by kind of handover. */
export const handovers = {
  released: (seen: Input, at: number): Input => ({
    ...replica(ended(seen, at)),
    ...replica(takenOver(seen, at), two),
  }),
  afterKill: (seen: Input, at: number): Input => ({
    ...replica(vanished(seen, at)),
    ...replica(takenOver(seen, at + 1), two),
  }),
  /** The previous holder keeps running without database access. */
  cutOff: (seen: Input, at: number): Input => ({
    ...replica(cutOff(seen, at)),
    ...replica(takenOver(seen, at + 1), two),
  }),
  /** Prometheus probes another replica: the labels are the same, but the values come from another process. */
  probedElsewhere(seen: Input, at: number): Input {
    const after = takenOver(seen, at);
    return replica(
      Object.fromEntries(
        Object.entries(seen).map(([name, values]) => [name, m => (m < at ? values(m) : after[name]?.(m))]),
      ),
    );
  },
  /** The account moves to the other replica and returns six minutes later. */
  thereAndBack(seen: Input, at: number): Input {
    const [there, back] = [takenOver(seen, at), takenOver(seen, at + 6)];
    const first = Object.entries(seen).map(
      ([name, values]) => [name, (m: number) => (m < at ? values(m) : back[name]?.(m))] as const,
    );
    return { ...replica(Object.fromEntries(first)), ...replica(ended(there, at + 6), two) };
  },
} as const;
