import { describe, expect, it } from 'vitest';
import type { Notice } from '../../src/notify/notice.ts';
import { createRepeating } from '../../src/notify/repeating.ts';
import {
  ACCEPTED,
  createClock,
  createCounts,
  createReceiver,
  DOWN,
  MINUTE,
  never,
  notice,
  REFUSED,
  SECOND,
} from '../rules/alerting-scene.ts';
import { createTestLog } from '../support/silent.ts';

function createScene() {
  const receiver = createReceiver('state', 'ops');
  const [clock, log, { counts, notifications }] = [createClock(), createTestLog(), createCounts()];
  let notices: readonly Notice[] = [];
  const repeat = createRepeating({
    receiver,
    notices: () => notices,
    mayNotify: () => true,
    notifications,
    clock,
    random: () => 1,
    log,
  });
  return {
    receiver,
    counts,
    log,
    /** Advances the clock by `ms` and runs the sender with these alerts. Returns the notifications that were sent. */
    async deliver(ms: number, ...now: readonly Notice[]) {
      notices = now;
      clock.pass(ms);
      const before = receiver.sent.length;
      await repeat(never);
      return receiver.sent.slice(before);
    },
  };
}

const resolved = (x: string) => notice(x, { status: 'resolved', endsAt: 2 });

describe('repeated notices', () => {
  it('createRepeating sends firing and resolved alerts immediately, then repeats them every minute', async () => {
    const { deliver, receiver, counts } = createScene();
    expect(await deliver(0, notice('1'))).toEqual(['firing 1']);
    expect(await deliver(MINUTE - 1, notice('1'))).toEqual([]);
    expect(await deliver(1, notice('1'))).toEqual(['firing 1']);
    expect(await deliver(SECOND, notice('1'), notice('2'))).toEqual(['firing 2']);
    expect(await deliver(SECOND, resolved('1'), notice('2'))).toEqual(['resolved 1']);
    expect(await deliver(MINUTE, resolved('1'), notice('2'))).toEqual(['resolved 1, firing 2']);
    expect(await deliver(MINUTE)).toEqual([]);
    expect(receiver.notices.every(({ startsAt }) => startsAt === 1)).toBe(true);
    expect(counts).toEqual({ 'ops sent': 6 });
  });

  it('createRepeating treats an alert that fires again as a new alert and sends it immediately', async () => {
    const { deliver } = createScene();
    await deliver(0, notice('1'));
    expect(await deliver(SECOND, notice('1', { startsAt: 5 }))).toEqual(['firing 1']);
  });

  it('createRepeating sends notices in batches of 64', async () => {
    const { deliver, receiver } = createScene();
    await deliver(0, ...Array.from({ length: 130 }, (_, x) => notice(String(x))));
    expect(receiver.sent.map(text => text.split(',').length)).toEqual([64, 64, 2]);
  });

  it('createRepeating drops only those alerts of a rejected batch that are rejected individually, and logs them', async () => {
    const { deliver, receiver, counts, log } = createScene();
    receiver.answer = notices => (notices.some(({ labels }) => labels.x === 'bad') ? REFUSED : ACCEPTED);
    const all = [notice('1'), notice('bad'), notice('2')];
    expect(await deliver(0, ...all)).toEqual(['firing 1, firing bad, firing 2', 'firing 1', 'firing bad', 'firing 2']);
    expect(counts).toEqual({ 'ops sent': 2, 'ops dropped': 1 });
    expect(log.lines).toEqual([
      expect.objectContaining({ level: 'error', fields: expect.objectContaining({ labels: notice('bad').labels }) }),
    ]);
    expect(await deliver(MINUTE, ...all)).toEqual(['firing 1, firing 2']);
    // The resolved notice of a dropped alert is a new notice, so it is sent.
    expect(await deliver(0, resolved('bad'))).toEqual(['resolved bad']);
  });

  it('createRepeating retries a failed send with increasing delays of at most a minute, and logs the failure once', async () => {
    const { deliver, receiver, counts, log } = createScene();
    receiver.answer = () => DOWN;
    const tried: number[] = [];
    for (let second = 0; second <= 200; second += 1) {
      if ((await deliver(second === 0 ? 0 : SECOND, notice('1'))).length > 0) tried.push(second);
    }
    expect(tried).toEqual([0, 1, 3, 7, 15, 31, 63, 123, 183]);
    expect(counts).toEqual({ 'ops failed': 9 });
    receiver.answer = () => ACCEPTED;
    expect(await deliver(MINUTE, resolved('1'))).toEqual(['resolved 1']);
    expect(log.lines.filter(({ level }) => level !== 'debug').map(({ message }) => message)).toEqual([
      'alerts could not be sent; retrying',
      'alerts can be sent again',
    ]);
  });

  it('createRepeating counts no failure if it is stopped while sending', async () => {
    const { receiver, counts, log } = createScene();
    const clock = createClock();
    const stop = new AbortController();
    receiver.answer = () => {
      stop.abort();
      throw new Error('stopped');
    };
    const notifications = createCounts().notifications;
    await createRepeating({
      receiver,
      notices: () => [notice('1')],
      mayNotify: () => true,
      notifications,
      clock,
      random: () => 1,
      log,
    })(stop.signal);
    expect([counts, log.lines]).toEqual([{}, []]);
  });
});
