import { describe, expect, it } from 'vitest';
import {
  ACCEPTED,
  createDeliveryScene,
  createReceiver,
  DOWN,
  FAILED,
  HOUR,
  MINUTE,
  notice,
  REFUSED,
  REJECTED,
  SECOND,
  type TestReceiver,
} from '../rules/alerting-scene.ts';

const WAIT = 10 * SECOND;
const grouping = { by: ['alertname', 'account'], wait: WAIT, repeatEvery: 4 * HOUR };

async function createScene(by: readonly string[] = grouping.by) {
  const hook = createReceiver('changes', 'hook', 0, { ...grouping, by });
  return { ...(await createDeliveryScene([hook])), hook };
}

async function createSingle() {
  const hook = createReceiver('changes');
  return { ...(await createDeliveryScene([hook])), hook };
}

const textOf = ({ sent }: TestReceiver) => sent.splice(0);

describe('groups', () => {
  it('a group is sent in one notification when the group wait time has passed since its first change', async () => {
    const scene = await createScene();
    scene.begin('1');
    await scene.deliver(WAIT - SECOND);
    scene.begin('2');
    expect(scene.hook.sent).toEqual([]);
    await scene.deliver(SECOND);
    expect(scene.hook.sent).toEqual(['firing 1, firing 2']);
    await scene.deliver(HOUR);
    expect(scene.hook.sent).toHaveLength(1);
    expect(scene.counts).toEqual({ 'hook sent': 1 });
  });

  it('a restart of the agent does not restart the group wait time', async () => {
    const scene = await createScene();
    scene.begin('1');
    await scene.deliver(6 * SECOND);
    await scene.restart();
    await scene.deliver(3 * SECOND);
    expect(scene.hook.sent).toEqual([]);
    await scene.deliver(SECOND);
    expect(scene.hook.sent).toEqual(['firing 1']);
  });

  it('the group wait time starts when an alert fires, not when its cause began', async () => {
    const scene = await createScene();
    const firedAt = scene.clock.now();
    scene.begin('1', { startsAt: firedAt - HOUR, firedAt });
    await scene.deliver(WAIT - SECOND);
    expect(scene.hook.sent).toEqual([]);
    await scene.deliver(SECOND);
    expect(scene.hook.sent).toEqual(['firing 1']);
  });

  it('a group notification contains the changed alerts and all other firing alerts, with their latest annotations', async () => {
    const scene = await createScene();
    scene.begin('1');
    await scene.deliver(WAIT);
    const [known] = scene.states.values();
    if (known) scene.states.set('1', { ...known, annotations: { summary: 'now 5' } });
    scene.begin('2');
    await scene.deliver(WAIT);
    scene.end('2');
    await scene.deliver(WAIT);
    scene.end('1');
    await scene.deliver(WAIT);
    expect(scene.hook.sent).toEqual(['firing 1', 'firing 2, firing 1', 'resolved 2, firing 1', 'resolved 1']);
    expect(scene.hook.notices[2]?.annotations).toEqual({ summary: 'now 5' });
  });

  it('each combination of grouping-label values has its own group; without grouping labels, there is one group', async () => {
    const [byAccount, all, every] = [await createScene(), await createScene([]), await createScene(['...'])];
    for (const scene of [byAccount, all, every]) {
      for (const [account, x] of ['a1', 'b2', 'a3'].map(each => [...each] as [string, string]))
        scene.begin(x, { labels: { alertname: 'A', account, x } });
      await scene.deliver(WAIT);
    }
    expect(byAccount.hook.sent).toEqual(['firing 1, firing 3', 'firing 2']);
    expect(all.hook.sent).toEqual(['firing 1, firing 2, firing 3']);
    expect(every.hook.sent).toEqual(['firing 1', 'firing 2', 'firing 3']);
  });

  it('a group is repeated only while an alert fires; the repeat interval starts at the last notification, even after restarts', async () => {
    const scene = await createScene();
    scene.begin('1');
    await scene.deliver(WAIT);
    await scene.deliver(4 * HOUR - SECOND);
    expect(scene.hook.sent).toHaveLength(1);
    await scene.restart();
    await scene.deliver(SECOND);
    expect(scene.hook.sent).toEqual(['firing 1', 'firing 1']);
    await scene.restart();
    await scene.deliver(4 * HOUR - SECOND);
    scene.end('1');
    await scene.deliver(WAIT);
    await scene.restart();
    await scene.deliver(9 * HOUR);
    expect(scene.hook.sent).toEqual(['firing 1', 'firing 1', 'resolved 1']);
    expect(new Set(scene.hook.keys).size).toBe(3);
    expect((await scene.rows()).size).toBe(0);
  });

  it.each([-1, 1])('a group is repeated only once when the clock jumps by a year (%d)', async years => {
    const scene = await createScene();
    scene.begin('1');
    await scene.deliver(WAIT);
    scene.clock.set(years * 365 * 24 * HOUR);
    await scene.deliver(MINUTE);
    expect(scene.hook.sent).toEqual(['firing 1', 'firing 1']);
    await scene.deliver(4 * HOUR - MINUTE);
    await scene.deliver(SECOND);
    expect(scene.hook.sent).toHaveLength(2);
    await scene.deliver(MINUTE);
    expect(scene.hook.sent).toHaveLength(3);
  });

  it('a group of ten thousand alerts is sent in requests of 250, each with the number of alerts that it omits', async () => {
    const scene = await createScene(['alertname']);
    const left = new Set<number | undefined>();
    const { send } = scene.hook;
    scene.hook.send = (notices, signal, group) => {
      left.add(group?.left);
      return send(notices, signal, group);
    };
    for (let index = 0; index < 10_000; index += 1)
      scene.begin(String(index), { labels: { alertname: 'A', account: `account-${index}` } });
    await scene.deliver(WAIT);
    expect(scene.hook.sent).toHaveLength(40);
    expect(new Set(scene.hook.notices.map(({ labels }) => labels.account)).size).toBe(10_000);
    expect([...left]).toEqual([9750]);
    expect(new Set(scene.hook.keys).size).toBe(40);
    await scene.deliver(HOUR);
    expect(scene.hook.sent).toHaveLength(40);
  });

  it('a changed grouping regroups the alerts without sending them again, and unsent alerts use the new group wait time', async () => {
    const scene = await createScene(['...']);
    scene.begin('1');
    await scene.deliver(WAIT);
    scene.begin('2');
    await scene.deliver();
    const [delivery] = scene.deliveries();
    delivery?.use(Object.assign(scene.hook, { grouping: { ...grouping, by: [], wait: 0 } }));
    await scene.deliver();
    expect(textOf(scene.hook)).toEqual(['firing 1', 'firing 2, firing 1']);
    scene.states.clear();
    await scene.restart();
    await scene.deliver();
    expect(scene.hook.sent).toEqual(['resolved 1, resolved 2']);
    expect((await scene.rows()).size).toBe(0);
  });
});

describe('the log', () => {
  it('each state of an alert is sent once, even after restarts', async () => {
    const scene = await createSingle();
    scene.begin('1');
    await scene.deliver();
    await scene.restart();
    await scene.deliver(48 * HOUR);
    scene.end('1');
    await scene.deliver();
    await scene.restart();
    await scene.deliver(HOUR);
    expect(scene.hook.sent).toEqual(['firing 1', 'resolved 1']);
    expect(scene.counts).toEqual({ 'hook sent': 2 });
  });

  it('an accepted alert is logged with the data that its resolution needs, and without secrets', async () => {
    const scene = await createSingle();
    scene.begin('1', { startsAt: 7, annotations: { summary: 'It grows.', x: 'y' } });
    await scene.deliver();
    const [[key, row] = []] = await scene.rows();
    expect(key).toMatch(/^alerts\/log\/hook\/0\/[0-9a-f]{16}$/);
    expect(JSON.parse(row ?? '')).toEqual({
      at: scene.clock.now(),
      alerts: {
        [key?.slice(-16) ?? '']: {
          labels: { alertname: 'A', account: 'a', x: '1' },
          startsAt: 7,
          summary: 'It grows.',
          receiver: 'a',
        },
      },
    });
  });

  it.each([
    ['its state is gone, for example with its rule or account', (scene: Scene) => scene.states.clear()],
    ['it is resolved', (scene: Scene) => scene.end('1')],
    ['the notifier no longer selects it', (scene: Scene) => void Object.assign(scene.hook, { selects: () => false })],
  ])('an alert that was sent as firing is resolved when %s, also after a restart', async (_when, change) => {
    for (const restarts of [false, true]) {
      const scene = await createScene();
      scene.begin('1', { annotations: { summary: 'It grows.' } });
      await scene.deliver(WAIT);
      if (restarts) await scene.restart();
      change(scene);
      await scene.deliver(MINUTE);
      await scene.deliver(WAIT);
      expect(scene.hook.sent).toEqual(['firing 1', 'resolved 1']);
      expect(scene.hook.notices[1]).toMatchObject({
        annotations: { summary: 'It grows.' },
        startsAt: scene.hook.notices[0]?.startsAt,
        endsAt: expect.any(Number),
      });
      await scene.deliver(9 * HOUR);
      expect(scene.hook.sent).toHaveLength(2);
    }
  });
  type Scene = Awaited<ReturnType<typeof createScene>>;

  it('a silenced or unknown alert is neither resolved nor repeated', async () => {
    const scene = await createScene(['...']);
    scene.begin('1');
    scene.begin('2');
    await scene.deliver(WAIT);
    scene.unknown.add('a');
    await scene.restart();
    await scene.deliver(9 * HOUR);
    scene.unknown.clear();
    for (const [x, state] of scene.states) scene.states.set(x, { ...state, isSuppressed: true });
    await scene.deliver(9 * HOUR);
    expect(scene.hook.sent).toEqual(['firing 1', 'firing 2']);
    scene.end('1');
    await scene.deliver(MINUTE);
    await scene.deliver(WAIT);
    expect(scene.hook.sent.slice(2)).toEqual(['resolved 1']);
  });

  it('a new episode is sent with a new start time, whether or not the previous episode was resolved first', async () => {
    const scene = await createSingle();
    scene.begin('1');
    await scene.deliver(SECOND);
    scene.end('1');
    await scene.deliver(SECOND);
    scene.begin('1');
    await scene.deliver(SECOND);
    scene.begin('1');
    await scene.deliver(SECOND);
    expect(scene.hook.sent).toEqual(['firing 1', 'resolved 1', 'firing 1', 'firing 1']);
    expect(new Set(scene.hook.notices.map(({ startsAt }) => startsAt)).size).toBe(3);
  });

  it.each([
    ['resolves', (scene: Single) => scene.end('1')],
    ['is gone', (scene: Single) => scene.states.clear()],
    ['starts again', (scene: Single) => scene.begin('1')],
  ])('an alert that %s before it could be sent is counted as dropped and logged once', async (_when, end) => {
    const scene = await createSingle();
    scene.hook.answer = () => DOWN;
    scene.begin('1');
    await scene.deliver();
    scene.clock.pass(SECOND);
    end(scene);
    await scene.deliver();
    await scene.deliver();
    expect(scene.counts['hook dropped']).toBe(1);
    expect(scene.log.lines.filter(({ message }) => message === 'a notification is dropped')).toHaveLength(1);
  });
  type Single = Awaited<ReturnType<typeof createSingle>>;

  it.each([
    ['the agent dies before it learns that it was accepted', (scene: Single) => scene.restart()],
    ['the response is lost', () => undefined],
  ])('an alert that ends after %s is resolved', async (_when, change) => {
    const scene = await createSingle();
    const lost = { ...DOWN, isUnsent: false, answer: 'TimeoutError' };
    scene.hook.answer = () => lost;
    scene.begin('1');
    await scene.deliver();
    await change(scene);
    scene.hook.answer = () => ACCEPTED;
    scene.states.clear();
    await scene.deliver(MINUTE);
    expect(scene.hook.sent).toEqual(['firing 1', 'resolved 1']);
    expect([scene.counts['hook dropped'], (await scene.rows()).size]).toEqual([undefined, 0]);
  });

  it('an alert that was silenced from its start to its end is neither sent nor counted', async () => {
    const scene = await createSingle();
    scene.begin('1', { isSuppressed: true });
    await scene.deliver();
    scene.end('1');
    await scene.deliver(SECOND);
    expect([scene.hook.sent, scene.counts]).toEqual([[], {}]);
  });

  it('a repeated request has the same key, even if the agent dies before it stores that it was accepted', async () => {
    const scene = await createScene();
    scene.begin('1');
    scene.store.isFull = true;
    await scene.deliver(WAIT);
    await scene.restart();
    scene.store.isFull = false;
    await scene.deliver(WAIT);
    expect(scene.hook.sent).toEqual(['firing 1', 'firing 1']);
    expect(new Set(scene.hook.keys).size).toBe(1);
    await scene.deliver(4 * HOUR);
    expect(new Set(scene.hook.keys).size).toBe(2);
  });

  it('an alert is sent once while the store fails, and logged when it recovers', async () => {
    const scene = await createSingle();
    scene.store.isFull = true;
    scene.begin('1');
    await scene.deliver();
    await scene.deliver(SECOND);
    scene.store.isFull = false;
    await scene.deliver(SECOND);
    await scene.restart();
    await scene.deliver(SECOND);
    expect([scene.hook.sent, (await scene.rows()).size]).toEqual([['firing 1'], 1]);
  });
});

describe('receivers', () => {
  it('while a receiver is down, only the first request is retried, with increasing delays', async () => {
    const scene = await createSingle();
    scene.hook.answer = () => DOWN;
    scene.begin('1');
    scene.begin('2');
    const asked: number[] = [];
    for (let second = 0; second <= 700; second += 1) {
      const before = scene.hook.sent.length;
      await scene.deliver(second === 0 ? 0 : SECOND);
      if (scene.hook.sent.length > before) asked.push(second);
    }
    expect(asked).toEqual([0, 1, 3, 7, 15, 31, 63, 127, 255, 511]);
    expect(new Set(scene.hook.sent)).toEqual(new Set(['firing 1']));
    expect(scene.log.lines.filter(({ level }) => level === 'warn')).toHaveLength(1);
    scene.hook.answer = () => ACCEPTED;
    await scene.deliver(300 * SECOND);
    expect(scene.hook.sent.slice(-2)).toEqual(['firing 1', 'firing 2']);
  });

  it('a receiver that was down for two days gets the latest states, and no history', async () => {
    const scene = await createSingle();
    scene.begin('0');
    scene.begin('3');
    await scene.deliver();
    scene.hook.answer = () => DOWN;
    scene.begin('1');
    await scene.deliver(HOUR);
    for (let hour = 0; hour < 48; hour += 1) {
      if (hour % 2 === 0) scene.end('1');
      else scene.begin('1');
      await scene.deliver(HOUR);
    }
    scene.states.delete('3');
    scene.end('0');
    await scene.restart();
    scene.hook.sent.length = 0;
    scene.hook.answer = () => ACCEPTED;
    await scene.deliver(HOUR);
    expect(scene.hook.sent.sort()).toEqual(['firing 1', 'resolved 0', 'resolved 3']);
    expect(scene.counts['hook dropped']).toBe(24);
  });

  it('a failed request delays only its own group', async () => {
    const scene = await createSingle();
    scene.hook.answer = ([first]) => (first?.labels.x === '1' ? FAILED : ACCEPTED);
    scene.begin('1');
    scene.begin('2');
    await scene.deliver();
    expect(scene.hook.sent).toEqual(['firing 1', 'firing 2']);
    scene.hook.answer = () => ACCEPTED;
    await scene.deliver(SECOND);
    expect(scene.hook.sent.slice(2)).toEqual(['firing 1']);
  });

  it('a receiver gets its alerts while another one is down and a third one hangs', async () => {
    const [down, hung, up] = [
      createReceiver('state', 'am', 0),
      createReceiver('state', 'am', 1),
      createReceiver('changes'),
    ];
    const { promise, resolve } = Promise.withResolvers<typeof ACCEPTED>();
    down.answer = () => DOWN;
    hung.answer = () => promise;
    const scene = await createDeliveryScene([down, hung, up]);
    scene.begin('1');
    const running = scene.deliver();
    await expect.poll(() => [down.sent, hung.sent, up.sent]).toEqual([['firing 1'], ['firing 1'], ['firing 1']]);
    resolve(ACCEPTED);
    await running;
    expect(scene.counts).toEqual({ 'am failed': 1, 'am sent': 1, 'hook sent': 1 });
  });

  it('a new or renamed receiver gets the firing alerts, once', async () => {
    const scene = await createSingle();
    scene.begin('1');
    scene.begin('2');
    await scene.deliver();
    scene.end('2');
    await scene.deliver(SECOND);
    const renamed = createReceiver('changes', 'renamed');
    await scene.restart([renamed]);
    await scene.deliver();
    await scene.deliver(HOUR);
    expect(renamed.sent).toEqual(['firing 1']);
  });

  it.each(['while the agent runs', 'while it is down'])(
    'a changed address or secret %s sends the firing alerts again, once, and resolves the others',
    async when => {
      const scene = await createScene();
      scene.begin('1');
      scene.begin('2');
      await scene.deliver(WAIT);
      scene.end('2');
      scene.hook.secret = 'b';
      if (when === 'while it is down') await scene.restart();
      await scene.deliver(MINUTE);
      await scene.deliver(WAIT);
      expect(scene.hook.sent.slice(1)).toEqual(['firing 1, resolved 2']);
      await scene.deliver(HOUR);
      expect(scene.hook.sent).toHaveLength(2);
    },
  );

  it('a delivery that is stopped while it sends counts no failure, and sends the alert again after a restart', async () => {
    const scene = await createSingle();
    scene.begin('1');
    const stop = new AbortController();
    scene.hook.answer = () => {
      stop.abort();
      throw new Error('stopped');
    };
    await scene.deliveries()[0]?.run(stop.signal);
    expect([scene.counts, scene.log.lines]).toEqual([{}, []]);
    scene.hook.answer = () => ACCEPTED;
    await scene.restart();
    await scene.deliver();
    expect(scene.hook.sent).toEqual(['firing 1', 'firing 1']);
  });

  it('a delivery that is stopped while it sends logs the accepted alert, and sends only the others after a restart', async () => {
    const scene = await createSingle();
    scene.begin('1');
    scene.begin('2');
    const stop = new AbortController();
    scene.hook.answer = () => {
      stop.abort();
      return ACCEPTED;
    };
    await scene.deliveries()[0]?.run(stop.signal);
    expect(scene.hook.sent).toEqual(['firing 1']);
    await scene.restart();
    await scene.deliver();
    expect(scene.hook.sent).toEqual(['firing 1', 'firing 2']);
  });
});

describe('refusals', () => {
  const refusing = (bad: string) => (notices: readonly { labels: { x?: string } }[]) =>
    notices.some(({ labels }) => labels.x === bad) ? REFUSED : ACCEPTED;

  it('a refused batch is split, so that all its alerts except the refused one are sent; the refused alert is retried alone after the repeat interval', async () => {
    const scene = await createScene();
    scene.hook.answer = refusing('bad');
    for (const x of ['1', 'bad', '2']) scene.begin(x);
    await scene.deliver(WAIT);
    expect(textOf(scene.hook)).toEqual(['firing 1, firing bad, firing 2', 'firing 1', 'firing bad', 'firing 2']);
    expect(scene.counts).toEqual({ 'hook sent': 2, 'hook failed': 1 });
    expect(scene.log.lines).toEqual([
      expect.objectContaining({
        level: 'error',
        fields: expect.objectContaining({ labels: notice('bad').labels, why: 'status 400' }),
      }),
    ]);
    await scene.deliver(HOUR);
    expect(textOf(scene.hook)).toEqual([]);
    await scene.deliver(3 * HOUR);
    expect(textOf(scene.hook)).toEqual(['firing bad']);
    scene.hook.answer = () => ACCEPTED;
    await scene.deliver(4 * HOUR);
    await scene.deliver(SECOND);
    expect(textOf(scene.hook)).toContain('firing bad');
    // It is now logged as sent, so its end is sent.
    scene.end('bad');
    await scene.deliver(MINUTE);
    await scene.deliver(WAIT);
    expect(textOf(scene.hook).join()).toContain('resolved bad');
  });

  it('a refused alert is not logged as sent: its resolution is not sent', async () => {
    const scene = await createSingle();
    scene.hook.answer = () => REFUSED;
    scene.begin('1');
    await scene.deliver();
    scene.hook.answer = () => ACCEPTED;
    scene.end('1');
    await scene.deliver(HOUR);
    expect(scene.hook.sent).toEqual(['firing 1']);
    expect(scene.counts).toEqual({ 'hook failed': 1, 'hook dropped': 1 });
  });

  it('a receiver that refuses everything gets the complete group once per repeat interval, and immediately after a change of its secret', async () => {
    const scene = await createScene();
    scene.hook.answer = () => REJECTED;
    scene.begin('1');
    scene.begin('2');
    await scene.deliver(WAIT);
    await scene.deliver(3 * HOUR);
    expect(textOf(scene.hook)).toEqual(['firing 1, firing 2']);
    await scene.deliver(HOUR);
    await scene.deliver(WAIT);
    expect(textOf(scene.hook)).toEqual(['firing 1, firing 2']);
    scene.hook.answer = () => ACCEPTED;
    scene.hook.secret = 'b';
    await scene.deliver();
    expect(textOf(scene.hook)).toEqual(['firing 1, firing 2']);
    expect(scene.counts).toEqual({ 'hook failed': 2, 'hook sent': 1 });
  });

  it('a refused alert is retried immediately after a restart or a reload of the configuration', async () => {
    const scene = await createSingle();
    scene.hook.answer = () => REFUSED;
    scene.begin('1');
    await scene.deliver();
    await scene.restart();
    await scene.deliver();
    scene.deliveries()[0]?.use(scene.hook);
    await scene.deliver();
    expect(scene.hook.sent).toHaveLength(3);
  });

  it('a refused resolution is retried until it is accepted', async () => {
    const scene = await createSingle();
    scene.begin('1');
    await scene.deliver();
    scene.hook.answer = () => REFUSED;
    scene.states.clear();
    await scene.deliver();
    await scene.deliver(HOUR);
    scene.hook.answer = () => ACCEPTED;
    await scene.deliver(3 * HOUR);
    expect(scene.hook.sent).toEqual(['firing 1', 'resolved 1', 'resolved 1']);
    expect((await scene.rows()).size).toBe(0);
  });
});

describe('Alertmanager', () => {
  async function createMember() {
    const member = createReceiver('state', 'ops');
    const scene = await createDeliveryScene([member]);
    return {
      ...scene,
      member,
      async sentAfter(ms: number) {
        await scene.deliver(ms);
        return textOf(member);
      },
    };
  }

  it('an Alertmanager member gets changed alerts immediately, and all alerts every minute', async () => {
    const scene = await createMember();
    scene.begin('1', { startsAt: 1 });
    expect(await scene.sentAfter(0)).toEqual(['firing 1']);
    expect(await scene.sentAfter(MINUTE - 1)).toEqual([]);
    expect(await scene.sentAfter(1)).toEqual(['firing 1']);
    scene.begin('2', { startsAt: 1 });
    expect(await scene.sentAfter(SECOND)).toEqual(['firing 2']);
    scene.end('1');
    expect(await scene.sentAfter(SECOND)).toEqual(['resolved 1']);
    expect(await scene.sentAfter(MINUTE - 2 * SECOND)).toEqual(['resolved 1, firing 2']);
    scene.states.delete('1');
    expect(await scene.sentAfter(MINUTE)).toEqual(['firing 2']);
    expect(scene.member.notices.every(({ startsAt }) => startsAt === 1)).toBe(true);
    const { commits } = scene.store;
    for (let minute = 0; minute < 10; minute += 1) expect(await scene.sentAfter(MINUTE)).toEqual(['firing 2']);
    expect(scene.store.commits).toBe(commits);
  });

  it('an Alertmanager member gets every firing alert in each minute, however often other alerts change', async () => {
    const scene = await createMember();
    scene.begin('1');
    await scene.sentAfter(0);
    let last = 0;
    for (let second = 1; second <= 300; second += 1) {
      scene.begin('2');
      if ((await scene.sentAfter(SECOND)).join().includes('firing 1')) {
        expect(second - last).toBeLessThanOrEqual(60);
        last = second;
      }
    }
    expect(last).toBe(300);
  });

  it('a silenced or unknown alert that was sent is repeated, because Alertmanager would resolve it', async () => {
    const scene = await createMember();
    scene.begin('1');
    await scene.sentAfter(0);
    scene.unknown.add('a');
    await scene.restart();
    expect(await scene.sentAfter(MINUTE)).toEqual(['firing 1']);
    scene.unknown.clear();
    scene.begin('2', { isSuppressed: true });
    for (const [x, state] of scene.states) scene.states.set(x, { ...state, isSuppressed: true });
    expect(await scene.sentAfter(MINUTE)).toEqual(['firing 1']);
  });

  it('an Alertmanager member gets requests of at most 64 alerts, of several accounts', async () => {
    const scene = await createMember();
    for (let index = 0; index < 130; index += 1)
      scene.begin(String(index), { labels: { alertname: 'A', account: `a${index}` } });
    expect((await scene.sentAfter(0)).map(text => text.split(',').length)).toEqual([64, 64, 2]);
  });

  it('an Alertmanager member that refuses one alert gets it separately, and the other alerts together every minute', async () => {
    const scene = await createMember();
    scene.member.answer = notices => (notices.some(({ labels }) => labels.x === 'bad') ? REFUSED : ACCEPTED);
    for (const x of ['1', 'bad', '2']) scene.begin(x);
    expect(await scene.sentAfter(0)).toEqual(['firing 1, firing bad, firing 2', 'firing 1', 'firing bad', 'firing 2']);
    expect(await scene.sentAfter(MINUTE)).toEqual(['firing bad', 'firing 1, firing 2']);
    expect(scene.log.lines.filter(({ level }) => level === 'error')).toHaveLength(1);
  });

  it('a failed request is retried with increasing delays of at most a minute, and logged once', async () => {
    const scene = await createMember();
    scene.member.answer = () => DOWN;
    scene.begin('1');
    const tried: number[] = [];
    for (let second = 0; second <= 200; second += 1) {
      if ((await scene.sentAfter(second === 0 ? 0 : SECOND)).length > 0) tried.push(second);
    }
    expect(tried).toEqual([0, 1, 3, 7, 15, 31, 63, 123, 183]);
    expect(scene.counts).toEqual({ 'ops failed': 9 });
    scene.member.answer = () => ACCEPTED;
    expect(await scene.sentAfter(MINUTE)).toEqual(['firing 1']);
    expect(scene.log.lines.filter(({ level }) => level !== 'debug').map(({ message }) => message)).toEqual([
      'a notification could not be sent; retrying',
      'notifications can be sent again',
    ]);
  });
});
