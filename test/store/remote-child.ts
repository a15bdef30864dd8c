/** The other process of `remote.ts`: answers calls one after another until its parent is gone. */
import { createRemoteCalls } from './remote-calls.ts';

const calls = createRemoteCalls() as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
let last = Promise.resolve();
process.on('message', ({ name, args }: { name: string; args: unknown[] }) => {
  last = last.then(async () => {
    try {
      process.send?.({ value: await calls[name]?.(...args) });
    } catch (error) {
      const { message, reason } = error as Error & { reason?: string };
      process.send?.({ error: { message, reason } });
    }
  });
});
process.on('disconnect', () => process.exit());
