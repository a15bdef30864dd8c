import { createLoops, type LoopOptions, type Loops } from './loop.ts';

type Spec = Pick<LoopOptions, 'every' | 'firstDelay' | 'body'>;

/** One loop that is replaced when its work changes. */
export interface LoopSlot {
  /**
   * Ends the loop, aborting its body, and starts the next one; undefined starts none. A loop with the same key and interval
   * continues undisturbed. One call at a time.
   */
  run(key: unknown, spec: Spec | undefined): Promise<void>;
  close(): Promise<void>;
}

export function createLoopSlot(deps: Pick<LoopOptions, 'clock' | 'random'>): LoopSlot {
  let current: { readonly key: unknown; readonly every: number; readonly loops: Loops } | undefined;
  let isClosed = false;
  return {
    async run(key, spec) {
      if (current && spec && current.key === key && current.every === spec.every) return;
      await current?.loops.close();
      current = undefined;
      if (!spec || isClosed) return;
      const loops = createLoops(deps);
      current = { key, every: spec.every, loops };
      void loops.start(spec.every, spec.firstDelay, spec.body);
    },
    async close() {
      isClosed = true;
      await current?.loops.close();
    },
  };
}
