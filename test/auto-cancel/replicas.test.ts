import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LEASE_MARGIN } from '../../src/auto-cancel/attempt.ts';
import { MINUTE, rule, SECOND } from '../support/auto-cancel-options.ts';
import { createScene } from '../support/auto-cancel-scene.ts';

const HELD = { left: 12 * SECOND, needed: 6 * SECOND };

async function warmScene() {
  const scene = await createScene({ rules: [rule('jobs')] });
  scene.lease = HELD;
  await scene.restart();
  await scene.warm();
  return scene;
}

/** The newest process stops as its request is about to be written; gives how it goes on, and what then becomes of that run. */
async function stopBeforeRequest(scene: Awaited<ReturnType<typeof warmScene>>) {
  const reached = Promise.withResolvers<void>();
  const woken = Promise.withResolvers<void>();
  scene.onTurn = () => {
    scene.onTurn = () => undefined;
    reached.resolve();
    return woken.promise;
  };
  const run = scene.walk('a').catch((error: unknown) => String(error));
  await reached.promise;
  return { wake: woken.resolve, run };
}

describe('a replica', () => {
  it('acts while its lease lasts longer than a cancel may take, and names itself in the intent', async () => {
    const scene = await warmScene();
    expect(await scene.walk('a')).toContain('intent a');
    expect(scene.sent).toEqual(['a']);
    expect((await scene.lines()).find(({ step }) => step === 'intent')).toMatchObject({ replica: 'replica 2' });
  });

  it('intends nothing where the lease may end before the request does', async () => {
    const scene = await warmScene();
    scene.lease = { ...HELD, left: HELD.needed };
    expect(await scene.walk('a')).toBe('left a not_leader');
    scene.lease = { ...HELD, left: HELD.needed + 1 };
    expect(await scene.again()).toContain('intent a');
    expect(scene.sent).toEqual(['a']);
  });

  it('sends nothing where the lease has run out between the intent and the request', async () => {
    const scene = await warmScene();
    scene.onTurn = () => {
      scene.lease = { ...HELD, left: HELD.needed };
    };
    expect(await scene.walk('a')).toContain('not_sent');
    scene.onTurn = () => undefined;
    scene.lease = HELD;
    // It surely was not sent: the next walk may.
    await scene.again();
    expect(scene.sent).toEqual(['a']);
  });

  it('gives up a request before another can hold the account', async () => {
    const scene = await warmScene();
    scene.lease = { left: LEASE_MARGIN + 50, needed: LEASE_MARGIN };
    let why = '';
    scene.onTurn = (_id, signal) =>
      new Promise<void>(resolve => {
        signal.addEventListener('abort', () => {
          why = String(signal.reason);
          scene.lease = { ...HELD, left: 0 };
          resolve();
        });
      });
    expect(await scene.walk('a')).toContain('not_sent');
    expect(why).toContain('within 50 ms');
    expect(scene.sent).toEqual([]);
  });

  it('intends nothing, and so sends nothing, while the database is away', async () => {
    const scene = await warmScene();
    scene.failCommitsAfter(0);
    await expect(scene.walk('a')).rejects.toThrow('disk full');
    expect(scene.sent).toEqual([]);
  });

  it('that is stopped between intent and request and wakes after the takeover sends nothing; nor is it sent twice', async () => {
    const scene = await warmScene();
    const { wake, run } = await stopBeforeRequest(scene);
    // Another takes over: it reads back what became of the intent before it does anything.
    await scene.restart();
    wake();
    expect(await run).toContain('belongs to another replica now');
    expect(scene.sent).toEqual([]);
    await scene.warm();
    for (let minute = 0; minute < 10; minute += 1) {
      await scene.walk('a');
      await scene.wait(MINUTE);
    }
    // Still in progress after all looks: one more attempt, by the holder alone.
    expect(scene.sent).toEqual(['a']);
    const intents = (await scene.lines()).filter(({ step }) => step === 'intent');
    expect(intents.map(line => 'replica' in line && line.replica)).toEqual(['replica 2', 'replica 3']);
  });

  it('does not send again what the one before sent and could not write down', async () => {
    const scene = await warmScene();
    const sending = Promise.withResolvers<void>();
    scene.onSend = () => sending.resolve();
    scene.answers.push('timeout!');
    const { wake, run } = await stopBeforeRequest(scene);
    wake();
    await sending.promise;
    const taken = scene.restart();
    await Promise.all([run, taken]);
    await scene.warm();
    for (let minute = 0; minute < 5; minute += 1) await scene.walk('a');
    expect(scene.sent).toEqual(['a']);
    expect((await scene.lines()).at(-1)).toMatchObject({ step: 'ended', outcome: 'confirmed' });
  });
});

it('nothing is cancelled twice, nor by a replica that lost the account, however they are stopped, replaced and woken', async () => {
  const step = fc.constantFrom(
    'walk',
    'walk',
    'walk',
    'wait',
    'stop',
    'take over',
    'wake',
    'lease ends',
    'commits fail',
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 30 }), async steps => {
      const scene = await warmScene();
      let holder = 2;
      const stopped: (() => void)[] = [];
      const runs: Promise<unknown>[] = [];
      /** Of each request the replica that held the account then. */
      const senders: (string | undefined)[] = [];
      scene.onSend = () => senders.push(`replica ${holder}`);
      /** Runs as far as it comes: to its end, or to where it is stopped. */
      const run = async (work: Promise<unknown>, until?: Promise<void>) => {
        const settled = work.catch(() => undefined);
        runs.push(settled);
        await Promise.race([settled, ...(until ? [until] : [])]);
      };
      for (const each of steps) {
        // No replica takes over while the database is away.
        if (each === 'stop' || each === 'take over') scene.failCommitsAfter(undefined);
        if (each === 'walk') await run(scene.walk('a b c'));
        if (each === 'wait') await run(scene.wait(MINUTE));
        if (each === 'stop') {
          const reached = Promise.withResolvers<void>();
          const woken = Promise.withResolvers<void>();
          scene.onTurn = () => {
            scene.onTurn = () => undefined;
            reached.resolve();
            return woken.promise;
          };
          stopped.push(woken.resolve);
          await run(scene.walk('a b c'), reached.promise);
          scene.onTurn = () => undefined;
          // One that is stopped does nothing more: another has to take over.
          await scene.restart();
          holder += 1;
        }
        if (each === 'take over') {
          await scene.restart();
          holder += 1;
        }
        if (each === 'wake') stopped.shift()?.();
        scene.lease = each === 'lease ends' ? { ...HELD, left: 0 } : HELD;
        scene.failCommitsAfter(each === 'commits fail' ? 1 : undefined);
      }
      scene.failCommitsAfter(undefined);
      scene.lease = HELD;
      for (const wake of stopped) wake();
      await Promise.all(runs);
      expect(scene.sent).toEqual([...new Set(scene.sent)]);
      const lines = await scene.lines();
      const intents = lines.flatMap(line => (line.step === 'intent' ? [line] : []));
      for (const [index, id] of scene.sent.entries()) {
        const by = intents.filter(({ target }) => target.id === id).map(({ replica }) => replica);
        expect(by).toContain(senders[index]);
      }
    }),
    { numRuns: 100 },
  );
});
