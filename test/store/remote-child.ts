/** Child process of `remote.ts`: executes calls sequentially until its parent disconnects. */
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
