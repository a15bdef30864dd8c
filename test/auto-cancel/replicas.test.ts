import { describe, expect, it } from 'vitest';
import { createScene, MINUTE, rule, SECOND } from '../support/auto-cancel-scene.ts';

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
