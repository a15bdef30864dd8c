import { describe, expect, it } from 'vitest';
import { createReplicaScene, REPEAT_EVERY, type ReplicaScene, type SentNotice, TICK } from './replica-scene.ts';

/** Number of ticks, enough for the alert to fire, repeat and resolve. */
const TICKS = 80;
const [BEGINS, ENDS] = [2, 52];
const LEASE = 15_000;
/** Maximum time from a replica's stop to the other replica's first notice (ms). */
const TAKEOVER = LEASE + 4 * TICK;

/** Simulates an alert that fires and resolves. Replica one stops at step `stopAt`; if `wakes`, it resumes after the takeover. */
async function live(stopAt: number, wakes: boolean) {
  const scene: ReplicaScene = createReplicaScene();
  scene.shared.next = 'one';
  const [one, two] = [scene.join('one'), scene.join('two')];
  one.stopAt(stopAt);
  let stoppedAt: string | undefined;
  let [stoppedFor, sentBefore] = [0, 0];
  let woken: readonly SentNotice[] = [];
  for (let tick = 0; tick < TICKS; tick += 1) {
    scene.pass(TICK);
    scene.holds = tick >= BEGINS && tick < ENDS;
    await one.tick();
    if (one.isStopped) {
      stoppedAt ??= one.stoppedAt;
      stoppedFor += TICK;
      scene.shared.next = 'two';
    }
    await two.tick();
    if (wakes && stoppedFor > LEASE + 2 * TICK) {
      sentBefore = scene.sent.length;
      await one.wake();
      await one.tick();
      woken = scene.sent.slice(sentBefore);
      stoppedFor = 0;
    }
  }
  const stored = await Promise.all(['', 'a'].map(account => scene.shared.rows.scan(account, 'alerts/')));
  const rows = stored.flatMap(each => [...each.keys()]).filter(key => !key.startsWith('alerts/state/'));
  return { ...scene, steps: one.steps, stoppedAt, rows, woken };
}

/** Returns the first notice of each key. */
const distinct = (sent: readonly SentNotice[]) =>
  [...new Map([...sent].reverse().map(each => [each.key, each])).values()].reverse();

describe('alerts across takeovers', () => {
  it('if no replica fails, an alert is sent when it fires, at each repeat and when it resolves', async () => {
    const { sent, rows } = await live(Number.POSITIVE_INFINITY, false);
    expect(sent.map(({ by, status }) => `${by} ${status}`)).toEqual([
      'one firing',
      'one firing',
      'one firing',
      'one firing',
      'one resolved',
    ]);
    expect(rows).toEqual([]);
  });

  it.each([
    ['is killed', false],
    ['is stopped for longer than its lease', true],
  ])(
    'an alert fires and resolves once and repeats on schedule, regardless of the step at which the first replica %s',
    async (_, wakes) => {
      const { steps } = await live(Number.POSITIVE_INFINITY, false);
      expect(steps).toBeGreaterThan(20);
      const seen = new Set<string>();
      for (let step = 1; step <= steps; step += 1) {
        const { sent, rows, stoppedAt = '', woken } = await live(step, wakes);
        const where = `stopped ${stoppedAt} (step ${step})`;
        seen.add(stoppedAt.replace(/\d+/g, '#'));
        const once = distinct(sent);
        // Notices are sent at least once: an unconfirmed notice is sent again with the same key and body.
        const again = sent.length - once.length;
        const wasSent = sent.some(({ by }) => by === 'one') && /request|alerts\/log/.test(stoppedAt);
        expect(again, where).toBeLessThanOrEqual(wasSent ? 1 : 0);
        for (const { key, text } of sent) expect(once.find(each => each.key === key)?.text, where).toBe(text);
        // The alert starts once and then resolves once.
        const begins = new Set(sent.map(({ text }) => JSON.parse(text)[0][1]));
        expect(begins.size, where).toBe(1);
        expect(once.at(0)?.status, where).toBe('firing');
        expect(
          once.filter(({ status }) => status === 'resolved'),
          where,
        ).toHaveLength(1);
        expect(once.at(-1)?.status, where).toBe('resolved');
        // Failovers do not reset the repeat interval, which starts when a notification is created.
        const firing = once.filter(({ status }) => status === 'firing');
        for (const [index, { at }] of firing.slice(1).entries()) {
          const since = at - (firing[index]?.at ?? 0);
          expect(since, where).toBeGreaterThanOrEqual(REPEAT_EVERY - TAKEOVER);
          expect(since, where).toBeLessThanOrEqual(REPEAT_EVERY + TAKEOVER);
        }
        expect(rows, where).toEqual([]);
        expect(woken, where).toEqual([]);
      }
      expect([...seen].filter(at => at.startsWith('after')).length).toBeGreaterThan(2);
    },
  );
});
