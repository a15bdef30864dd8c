import { createLoops, type LoopOptions, type Loops } from './loop.ts';

/** A loop that is wanted; its body tells it from others. */
export interface LoopSpec extends Pick<LoopOptions, 'every' | 'firstDelay' | 'body'> {}

/** Loops of which some end and others begin while the rest goes on. */
export interface LoopSet {
  /**
   * Aborts the loops that are not wanted, and once they have ended begins those that are new. One with the same body and
   * interval goes on, undisturbed. One call at a time.
   */
  run(wanted: readonly LoopSpec[]): Promise<void>;
  /** Ends all of them. None begins afterwards. */
  close(): Promise<void>;
}

export function createLoopSet(deps: Pick<LoopOptions, 'clock' | 'random'>): LoopSet {
  const running = new Map<LoopOptions['body'], { readonly every: number; readonly loops: Loops }>();
  let isClosed = false;

  async function end(bodies: readonly LoopOptions['body'][]): Promise<void> {
    const ended = bodies.map(body => running.get(body)?.loops.close());
    for (const body of bodies) running.delete(body);
    await Promise.all(ended);
  }

  return {
    async run(wanted) {
      const intervals = new Map(wanted.map(({ body, every }) => [body, every]));
      await end([...running].flatMap(([body, { every }]) => (intervals.get(body) === every ? [] : [body])));
      for (const { every, firstDelay, body } of wanted) {
        if (isClosed || running.has(body)) continue;
        const loops = createLoops(deps);
        running.set(body, { every, loops });
        void loops.start(every, firstDelay, body);
      }
    },
    async close() {
      isClosed = true;
      await end([...running.keys()]);
    },
  };
}
