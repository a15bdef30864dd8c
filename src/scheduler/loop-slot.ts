import { createLoops, type LoopOptions, type Loops } from './loop.ts';

type Spec = Pick<LoopOptions, 'every' | 'firstDelay' | 'body'>;

/** A loop that is replaced when its work changes. */
export type LoopSlot = ReturnType<typeof createLoopSlot>;

export function createLoopSlot(deps: Pick<LoopOptions, 'clock' | 'random'>) {
  let current: { readonly key: unknown; readonly every: number; readonly loops: Loops } | undefined;
  let isClosed = false;
  return {
    /**
     * Replaces the loop, aborting its body; ends it if `spec` is undefined. A loop with the same key and interval continues.
     * Calls must not overlap.
     */
    async run(key: unknown, spec: Spec | undefined): Promise<void> {
      if (current && spec && current.key === key && current.every === spec.every) return;
      await current?.loops.close();
      current = undefined;
      if (!spec || isClosed) return;
      const loops = createLoops(deps);
      current = { key, every: spec.every, loops };
      void loops.start(spec.every, spec.firstDelay, spec.body);
    },
    async close(): Promise<void> {
      isClosed = true;
      await current?.loops.close();
    },
  };
}
