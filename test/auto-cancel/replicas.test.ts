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

/** Pauses the newest process right before it sends a request. `wake` resumes it; `run` resolves when its run ends. */
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

describe('replicas', () => {
  it('a replica cancels if its lease outlasts the cancel, and the intent records the id of the replica', async () => {
    const scene = await warmScene();
    expect(await scene.walk('a')).toContain('intent a');
    expect(scene.sent).toEqual(['a']);
    expect((await scene.lines()).find(({ step }) => step === 'intent')).toMatchObject({ replica: 'replica 2' });
  });

  it('a replica writes no intent if its lease may end before the request', async () => {
    const scene = await warmScene();
    scene.lease = { ...HELD, left: HELD.needed };
    expect(await scene.walk('a')).toBe('left a not_leader');
    scene.lease = { ...HELD, left: HELD.needed + 1 };
    expect(await scene.again()).toContain('intent a');
    expect(scene.sent).toEqual(['a']);
  });

  it('a replica sends nothing if too little of its lease remains after the intent is stored', async () => {
    const scene = await warmScene();
    scene.onTurn = () => {
      scene.lease = { ...HELD, left: HELD.needed };
    };
    expect(await scene.walk('a')).toContain('not_sent');
    scene.onTurn = () => undefined;
    scene.lease = HELD;
    // The request was certainly not sent, so the next walk may send one.
    await scene.again();
    expect(scene.sent).toEqual(['a']);
  });

  it('a replica aborts a request before another replica can acquire the lease of the account', async () => {
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

  it('a replica writes no intent and sends nothing while the database is unavailable', async () => {
    const scene = await warmScene();
    scene.failCommitsAfter(0);
    await expect(scene.walk('a')).rejects.toThrow('disk full');
    expect([scene.sent, await scene.lines()]).toEqual([[], []]);
  });

  it('a replica sends nothing if it is paused after its intent and continues after a takeover', async () => {
    const scene = await warmScene();
    const { wake, run } = await stopBeforeRequest(scene);
    // The new holder first reads back the open intent.
    await scene.restart();
    wake();
    expect(await run).toContain('is not led by this process');
    expect(scene.sent).toEqual([]);
    await scene.warm();
    for (let minute = 0; minute < 10; minute += 1) {
      await scene.walk('a');
      await scene.wait(MINUTE);
    }
    // The callback is still in progress after all read-backs. Only the holder makes another attempt.
    expect(scene.sent).toEqual(['a']);
    const intents = (await scene.lines()).filter(({ step }) => step === 'intent');
    expect(intents.map(line => 'replica' in line && line.replica)).toEqual(['replica 2', 'replica 3']);
  });

  it('a replica does not repeat a cancel that the previous leader sent if no response is stored', async () => {
    const scene = await warmScene();
    const sending = Promise.withResolvers<void>();
    scene.onSend = () => sending.resolve();
    scene.answers.push('timeout!');
    const { wake, run } = await stopBeforeRequest(scene);
    wake();
    await sending.promise;
    const takeover = scene.restart();
    await Promise.all([run, takeover]);
    await scene.warm();
    for (let minute = 0; minute < 5; minute += 1) await scene.walk('a');
    expect(scene.sent).toEqual(['a']);
    expect((await scene.lines()).at(-1)).toMatchObject({ step: 'ended', outcome: 'confirmed' });
  });
});

it('no callback is cancelled twice or by a replica without the lease, even if replicas pause, take over and continue', async () => {
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
      /** Holder of the account at the time of each request. */
      const senders: (string | undefined)[] = [];
      scene.onSend = () => senders.push(`replica ${holder}`);
      /** Waits until the work ends or the replica is paused. */
      const run = async (work: Promise<unknown>, until?: Promise<void>) => {
        const settled = work.catch(() => undefined);
        runs.push(settled);
        await Promise.race([settled, ...(until ? [until] : [])]);
      };
      for (const each of steps) {
        // No replica takes over while the database is unavailable.
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
          // A paused replica does nothing: another one must take over.
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
