import { describe, expect, it } from 'vitest';
import {
  ACCEPTED,
  createOutboxScene,
  createReceiver,
  DOWN,
  FAILED,
  HOUR,
  never,
  notice,
  REFUSED,
  SECOND,
} from '../rules/alerting-scene.ts';

describe('outbox', () => {
  it('the outbox sends each notice once and deletes it', async () => {
    const hook = createReceiver('changes');
    const scene = await createOutboxScene([hook]);
    await scene.post(notice('1'), notice('2'));
    expect(await scene.rows()).toBe(2);
    await scene.deliver();
    expect(hook.sent).toEqual(['firing 1', 'firing 2']);
    expect(await scene.rows()).toBe(0);
    await scene.deliver(HOUR);
    await scene.restart();
    await scene.deliver(HOUR);
    expect(hook.sent).toHaveLength(2);
    expect(scene.counts).toEqual({ 'hook sent': 2 });
  });

  it('the outbox sends the unsent notifications of each account in their original order after a restart', async () => {
    const hook = createReceiver('changes');
    hook.answer = () => DOWN;
    const scene = await createOutboxScene([hook]);
    await scene.post(notice('1'), notice('2'));
    await scene.store.commit(
      'b',
      scene
        .outbox()
        .post('b', [notice('3')], () => true)
        .changes(),
    );
    await scene.deliver();
    hook.answer = () => ACCEPTED;
    await scene.restart();
    await scene.post(notice('4'));
    await scene.restart();
    await scene.deliver();
    expect(hook.sent).toEqual(['firing 1', 'firing 1', 'firing 2', 'firing 4', 'firing 3']);
    expect(await scene.rows()).toBe(0);
  });

  it('the outbox does not send uncommitted notices', async () => {
    const hook = createReceiver('changes');
    const scene = await createOutboxScene([hook]);
    scene.outbox().post('a', [notice('1')], () => true);
    await scene.deliver();
    expect(hook.sent).toEqual([]);
  });

  it('while a receiver is down, the outbox retries only the first notice, with increasing delays', async () => {
    const hook = createReceiver('changes');
    hook.answer = () => DOWN;
    const scene = await createOutboxScene([hook]);
    await scene.post(notice('1'), notice('2'));
    const asked: number[] = [];
    for (let second = 0; second <= 700; second += 1) {
      const before = hook.sent.length;
      await scene.deliver(second === 0 ? 0 : SECOND);
      if (hook.sent.length > before) asked.push(second);
    }
    expect(asked).toEqual([0, 1, 3, 7, 15, 31, 63, 127, 255, 511]);
    expect(new Set(hook.sent)).toEqual(new Set(['firing 1']));
    expect(scene.log.lines.filter(({ level }) => level === 'warn')).toHaveLength(1);
    hook.answer = () => ACCEPTED;
    await scene.deliver(300 * SECOND);
    expect(hook.sent.slice(-2)).toEqual(['firing 1', 'firing 2']);
  });

  it('the outbox keeps the notices of one alert in order without delaying the notices of other alerts', async () => {
    const hook = createReceiver('changes');
    hook.answer = ([first]) => (first?.labels.x === '1' ? FAILED : ACCEPTED);
    const scene = await createOutboxScene([hook]);
    await scene.post(notice('1'), notice('2'), notice('1', { status: 'resolved' }));
    await scene.deliver();
    expect(hook.sent).toEqual(['firing 1', 'firing 2']);
    hook.answer = () => ACCEPTED;
    await scene.deliver(SECOND);
    expect(hook.sent.slice(2)).toEqual(['firing 1', 'resolved 1']);
  });

  it('the outbox drops rejected notices of resolved alerts immediately, and undeliverable ones after a day and a final attempt', async () => {
    const hook = createReceiver('changes');
    hook.answer = ([first]) => (first?.labels.x === 'bad' ? REFUSED : DOWN);
    const scene = await createOutboxScene([hook]);
    await scene.post(notice('bad', { status: 'resolved' }), notice('1'));
    await scene.deliver();
    expect(await scene.rows()).toBe(1);
    await scene.deliver(24 * HOUR - SECOND);
    expect(await scene.rows()).toBe(1);
    // A restart does not reset the one-day limit.
    await scene.restart();
    await scene.deliver(SECOND);
    expect(await scene.rows()).toBe(0);
    expect(hook.sent).toEqual(['resolved bad', 'firing 1', 'firing 1', 'firing 1']);
    expect(scene.counts).toEqual({ 'hook dropped': 2, 'hook failed': 2 });
    expect(scene.log.lines.filter(({ level }) => level === 'error').map(({ fields }) => fields)).toEqual([
      expect.objectContaining({ why: 'status 400', status: 'resolved', alert: 'A' }),
      expect.objectContaining({ why: 'ECONNREFUSED, for too long' }),
    ]);
  });

  it('the outbox retries a rejected notice of a firing alert, even after a restart, until the receiver accepts it', async () => {
    const hook = createReceiver('changes');
    hook.answer = ([first]) => (first?.labels.x === '1' ? REFUSED : ACCEPTED);
    const scene = await createOutboxScene([hook]);
    await scene.post(notice('1'), notice('2'));
    await scene.deliver();
    await scene.deliver(HOUR);
    await scene.restart();
    await scene.deliver();
    expect(hook.sent).toEqual(['firing 1', 'firing 2', 'firing 1', 'firing 1']);
    hook.answer = () => ACCEPTED;
    await scene.deliver(SECOND);
    expect(hook.sent).toHaveLength(5);
    expect(await scene.rows()).toBe(0);
    expect(scene.counts).toEqual({ 'hook sent': 2, 'hook failed': 3 });
  });

  it('the outbox drops a rejected notice when its alert is resolved, or immediately if the alert has a fixed duration', async () => {
    const hook = createReceiver('changes');
    hook.answer = () => REFUSED;
    const scene = await createOutboxScene([hook]);
    await scene.post(notice('1'), notice('2', { lasts: HOUR }));
    await scene.deliver();
    expect(scene.counts).toEqual({ 'hook failed': 1, 'hook dropped': 1 });
    await scene.post(notice('1', { status: 'resolved' }));
    await scene.deliver(SECOND);
    expect(scene.counts).toEqual({ 'hook failed': 1, 'hook dropped': 3 });
    expect(await scene.rows()).toBe(0);
  });

  it('the outbox sends to a receiver while another one is down and a third one hangs', async () => {
    const [down, hung, up] = [
      createReceiver('state', 'am', 0),
      createReceiver('state', 'am', 1),
      createReceiver('changes'),
    ];
    const { promise, resolve } = Promise.withResolvers<typeof ACCEPTED & { kind: 'accepted' }>();
    down.answer = () => DOWN;
    hung.answer = () => promise;
    const scene = await createOutboxScene([down, hung, up]);
    await scene.post(notice('1'));
    const senders = scene.outbox().senders.map(send => send(never));
    await senders[2];
    expect([down.sent, hung.sent, up.sent]).toEqual([['firing 1'], ['firing 1'], ['firing 1']]);
    expect(scene.counts).toMatchObject({ 'hook sent': 1 });
    resolve(ACCEPTED as typeof ACCEPTED & { kind: 'accepted' });
    await Promise.all(senders);
    expect(await scene.rows()).toBe(1);
  });

  it('the outbox drops the queue of a removed notifier and logs a warning', async () => {
    const hook = createReceiver('changes');
    const scene = await createOutboxScene([hook]);
    await scene.post(notice('1'));
    await scene.restart([createReceiver('changes', 'other')]);
    expect(await scene.rows()).toBe(0);
    expect(scene.log.lines).toEqual([
      expect.objectContaining({ level: 'warn', fields: { account: 'a', notifier: 'hook' } }),
    ]);
  });

  it('the outbox drops the oldest notices of a receiver if more than ten thousand are queued', async () => {
    const hook = createReceiver('changes');
    hook.answer = () => DOWN;
    const scene = await createOutboxScene([hook]);
    const posting = scene.outbox().post(
      'a',
      Array.from({ length: 10_002 }, (_, x) => notice(String(x))),
      () => true,
    );
    posting.send();
    expect(scene.counts).toEqual({ 'hook dropped': 2 });
    await scene.deliver();
    expect(hook.sent).toEqual(['firing 2']);
  });

  it('the outbox sends a notice once even if the store fails to delete its row, and deletes the row later', async () => {
    const hook = createReceiver('changes');
    const scene = await createOutboxScene([hook]);
    await scene.post(notice('1'));
    scene.store.isFull = true;
    await scene.deliver();
    await scene.deliver(SECOND);
    expect(hook.sent).toEqual(['firing 1']);
    scene.store.isFull = false;
    await scene.deliver(SECOND);
    expect([hook.sent.length, await scene.rows()]).toEqual([1, 0]);
  });

  it('the outbox retries deleting the rows of at most ten thousand sent notices', async () => {
    const hook = createReceiver('changes');
    const scene = await createOutboxScene([hook]);
    scene.store.isFull = true;
    for (const [from, count] of [
      [0, 10_000],
      [10_000, 2],
    ] as const) {
      const notices = Array.from({ length: count }, (_, x) => notice(String(from + x)));
      const posting = scene.outbox().post('a', notices, () => true);
      posting.send();
      await scene.deliver();
    }
    expect(hook.sent).toHaveLength(10_002);
    scene.store.isFull = false;
    await scene.deliver();
    expect(scene.store.commits).toBe(10_000);
    expect(scene.counts).toEqual({ 'hook sent': 10_002 });
  });

  it('the outbox counts no failure if it is stopped while sending', async () => {
    const hook = createReceiver('changes');
    const scene = await createOutboxScene([hook]);
    await scene.post(notice('1'));
    const stop = new AbortController();
    hook.answer = () => {
      stop.abort();
      throw new Error('stopped');
    };
    await scene.outbox().senders[0]?.(stop.signal);
    expect([scene.counts, scene.log.lines, await scene.rows()]).toEqual([{}, [], 1]);
  });
});

describe('replaced receivers', () => {
  const grouping = { by: ['alertname'], wait: 0, repeatEvery: HOUR };

  it('a replaced receiver passes its queue to the receiver with the same notifier and member, which retries immediately', async () => {
    const old = createReceiver('changes');
    old.answer = () => DOWN;
    const scene = await createOutboxScene([old]);
    await scene.post(notice('1'), notice('2'));
    await scene.deliver();
    const next = createReceiver('changes');
    await scene.outbox().use([next]);
    expect(await scene.rows()).toBe(2);
    await scene.deliver();
    expect([old.sent, next.sent]).toEqual([['firing 1'], ['firing 1', 'firing 2']]);
    expect(await scene.rows()).toBe(0);
    expect(scene.counts).toEqual({ 'hook failed': 1, 'hook sent': 2 });
  });

  it('a rejected notice is retried immediately when its receiver is replaced', async () => {
    const [old, next] = [createReceiver('changes'), createReceiver('changes')];
    old.answer = () => REFUSED;
    const scene = await createOutboxScene([old]);
    await scene.post(notice('1'));
    await scene.deliver();
    await scene.outbox().use([next]);
    await scene.deliver();
    expect([old.sent, next.sent]).toEqual([['firing 1'], ['firing 1']]);
  });

  it('waiting changes of a group are sent with the grouping settings of the new receiver', async () => {
    const old = createReceiver('changes', 'hook', 0, { ...grouping, wait: HOUR });
    const scene = await createOutboxScene([old]);
    await scene.post(notice('1'), notice('2'));
    await scene.deliver();
    const next = createReceiver('changes', 'hook', 0, grouping);
    await scene.outbox().use([next]);
    await scene.deliver();
    expect([old.sent, next.sent]).toEqual([[], ['firing 1, firing 2']]);
  });

  it('removed receivers leave no rows in the store', async () => {
    const [kept, queued, waiting, notified] = [
      createReceiver('changes'),
      createReceiver('changes', 'hook', 1),
      createReceiver('changes', 'waiting', 0, { ...grouping, wait: HOUR }),
      createReceiver('changes', 'notified', 0, grouping),
    ];
    kept.answer = () => DOWN;
    queued.answer = () => DOWN;
    const scene = await createOutboxScene([kept, queued, waiting, notified]);
    await scene.post(notice('1'));
    await scene.deliver();
    const timesOfGroups = async () => (await scene.store.scan('', 'alerts/told/')).size;
    expect([await scene.rows(), await timesOfGroups()]).toEqual([3, 1]);
    await scene.outbox().use([kept]);
    expect([await scene.rows(), await timesOfGroups()]).toEqual([1, 0]);
    const dropped = scene.log.lines.filter(({ message }) => message.endsWith('no longer configured'));
    expect(dropped.map(({ fields }) => fields)).toEqual([
      { account: 'a', notifier: 'hook' },
      { account: 'a', notifier: 'waiting' },
    ]);
    kept.answer = () => ACCEPTED;
    await scene.deliver(HOUR);
    expect(scene.counts).toMatchObject({ 'hook sent': 1 });
    expect([queued.sent, waiting.sent]).toEqual([['firing 1'], []]);
  });

  it('receivers are replaced even if their rows cannot be deleted, and the error is reported', async () => {
    const [old, next] = [createReceiver('changes', 'old'), createReceiver('changes', 'next')];
    old.answer = () => DOWN;
    const scene = await createOutboxScene([old]);
    await scene.post(notice('1'));
    scene.store.isFull = true;
    await expect(scene.outbox().use([next])).rejects.toThrow('disk full');
    scene.store.isFull = false;
    await scene.post(notice('2'));
    await scene.deliver();
    expect([old.sent, next.sent]).toEqual([[], ['firing 2']]);
    // The next start deletes the row of the removed receiver.
    expect(await scene.rows()).toBe(1);
    await scene.restart([next]);
    expect(await scene.rows()).toBe(0);
  });
});
