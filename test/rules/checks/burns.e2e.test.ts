import { describe, expect, it } from 'vitest';
import { type AlertState, advance } from '../../../src/rules/state.ts';
import { finish, key, MINUTE, queueOf, tallyOf } from './check-scene.ts';
import { createRecordedScene, HOUR, type RecordedScene } from './recorded-scene.ts';

/** Delivers and fails messages; the numbers may be fractions of a message per minute. */
function ending({ account }: RecordedScene, delivered: number, failed: number) {
  let [allDelivered, allFailed] = [tallyOf(account).finished.delivered, tallyOf(account).finished.failed];
  return (isFailing = true) => {
    allDelivered += delivered;
    allFailed += isFailing ? failed : 0;
    finish(account, { delivered: Math.floor(allDelivered), failed: Math.floor(allFailed) });
  };
}

/** Passes minutes in which messages end. */
function pass(scene: RecordedScene, minutes: number, delivered: number, failed = 0, each?: () => void) {
  const end = ending(scene, delivered, failed);
  return scene.minutes(minutes, () => end(), each, 3);
}

const BURNS = ['messages_failing', 'messages_failing_slowly', 'messages_late', 'deliveries_stalled'] as const;
const burnsOf = (scene: RecordedScene) => scene.kinds().filter(kind => BURNS.some(burn => burn === kind));

describe('burn rates', () => {
  it.each([
    [
      'nine of 200 messages an hour',
      9,
      'messages_failing_slowly',
      '216 of the 5,013 messages that ended in 23 h 59 min failed: 4.3 %',
    ],
    ['14 of 200 messages an hour', 14, 'messages_failing', '84 of the 1,284 messages that ended in 6 h failed: 6.5 %'],
    [
      '40 of 200 messages an hour',
      40,
      'messages_failing',
      '40 of the 240 messages that ended in the last hour failed: 16.7 %',
    ],
  ])('a long burn is found, and its text states the window that burns: %s', async (_what, failed, kind, text) => {
    const scene = await createRecordedScene();
    await pass(scene, 24 * 60, 200 / 60, failed / 60);
    expect(burnsOf(scene)).toEqual([kind]);
    expect(scene.found(kind)[0]).toContain(text);
  });

  it('a burn at the sustainable rate is found within three days', async () => {
    const scene = await createRecordedScene();
    await pass(scene, 73 * 60, 10, 0.15);
    expect(scene.found('messages_failing_slowly')[0]).toContain('in 3 d failed: 1.5 %');
  });

  it('no burn is found while the objective is met', async () => {
    const scene = await createRecordedScene();
    await pass(scene, 26 * 60, 10, 0.08);
    expect(burnsOf(scene)).toEqual([]);
    expect(BURNS.filter(scene.isUnknown)).toEqual([]);
  });

  it('a slow burn after a fast one is unknown for six hours, because it only repeats the fast one', async () => {
    const scene = await createRecordedScene();
    await pass(scene, 24 * 60, 10);
    await pass(scene, 60, 0, 10);
    expect(burnsOf(scene)).toEqual(['messages_failing']);
    expect(scene.isUnknown('messages_failing_slowly')).toBe(true);
    await pass(scene, 4 * 60, 10);
    expect(burnsOf(scene)).toEqual([]);
    expect(scene.isUnknown('messages_failing_slowly')).toBe(true);
    await pass(scene, 9 * 60, 10);
    expect(burnsOf(scene)).toEqual([]);
    expect(scene.isUnknown('messages_failing_slowly')).toBe(false);
  });

  it('windows of days survive restarts and an outage of the agent, after which the missed events are counted all at once', async () => {
    const scene = await createRecordedScene();
    await pass(scene, 12 * 60, 10, 0.45);
    await scene.restart(3 * HOUR);
    finish(scene.account, {
      delivered: tallyOf(scene.account).finished.delivered + 1800,
      failed: tallyOf(scene.account).finished.failed + 81,
    });
    await pass(scene, 9 * 60, 10, 0.45);
    // From noon, when the history starts, until noon.
    expect(scene.found('messages_failing_slowly')[0]).toMatch(
      /^64[0-9] of the 15,0\d\d messages that ended in 23 h 59 min failed/,
    );
  });

  it.each([
    [
      'the service was unreadable',
      async (scene: RecordedScene) => {
        scene.setReadable(false);
        await scene.minutes(45);
        scene.setReadable(true);
      },
    ],
    ['the agent was down', (scene: RecordedScene) => scene.restart(45 * MINUTE)],
  ])(
    'events that are counted at once after an outage are not failures of the last minutes: %s',
    async (_what, outage) => {
      for (const keep of [0, 48 * HOUR]) {
        const scene = await createRecordedScene({ keep });
        await pass(scene, 8 * 60, 10);
        await outage(scene);
        // All messages of the outage have failed; later ones are delivered.
        finish(scene.account, { failed: 460 });
        const found = new Set<string>();
        await pass(scene, 8 * 60, 10, 0, () => {
          for (const kind of burnsOf(scene)) found.add(kind);
        });
        // The outage is a part of the last day.
        expect([...found]).toEqual([]);
      }
    },
  );

  it('a burn that continues after an outage is found within minutes', async () => {
    const scene = await createRecordedScene();
    await pass(scene, 3 * 60, 10);
    scene.setReadable(false);
    await scene.minutes(30);
    expect(scene.isUnknown('messages_failing')).toBe(true);
    scene.setReadable(true);
    await pass(scene, 5, 0, 10);
    expect(burnsOf(scene)).toEqual(['messages_failing']);
  });
});

describe('late messages', () => {
  /** Counts the pages of an incident: transitions of critical kinds to firing. */
  function createPages() {
    const states = new Map<string, AlertState>();
    const pages: string[] = [];
    return {
      pages,
      evaluate(scene: RecordedScene) {
        for (const { check, findings, unknown } of scene.results()) {
          if (check.severity !== 'critical') continue;
          const before = states.get(check.kind);
          const holds = findings.length > 0 || (unknown.length > 0 && ('unknown' as const));
          const evaluation = { holds, now: scene.clock.now(), monotonic: scene.clock.monotonic() };
          const after = advance(before, check, evaluation);
          if (after?.phase === 'firing' && before?.phase !== 'firing') pages.push(check.kind);
          if (after) states.set(check.kind, after);
          else states.delete(check.kind);
        }
      },
    };
  }

  it('an incident in which messages fail after retries pages once', async () => {
    const scene = await createRecordedScene();
    const { pages, evaluate } = createPages();
    await pass(scene, 2 * 60, 20);
    const half = ending(scene, 10, 10);
    let minute = 0;
    await scene.minutes(
      90,
      () => {
        minute += 1;
        // Half of the messages are late after five minutes and fail after eight.
        if (minute > 5) scene.account.events.log.overdue += 10;
        half(minute > 8);
      },
      () => evaluate(scene),
    );
    expect(pages).toEqual(['messages_failing']);
  });

  it('messages that are delivered late cause one page', async () => {
    const scene = await createRecordedScene();
    const { pages, evaluate } = createPages();
    await pass(scene, 2 * 60, 20);
    const delivering = ending(scene, 10, 0);
    await scene.minutes(
      60,
      () => {
        scene.account.events.log.overdue += 5;
        delivering();
      },
      () => evaluate(scene),
    );
    expect(pages).toEqual(['messages_late']);
  });

  it('messages that are late for hours at a steady rate are found in the window of six hours', async () => {
    const scene = await createRecordedScene();
    const delivering = ending(scene, 10, 0);
    await scene.minutes(8 * 60, minute => {
      if (minute % 10 < 8) scene.account.events.log.overdue += 1;
      delivering();
    });
    expect(scene.found('messages_late')[0]).toMatch(/^28\d messages missed the target of 5 min in 6 h( \d+ min)?/);
  });

  it('if the event log has stopped, event_log_behind is found instead of late messages', async () => {
    const scene = await createRecordedScene();
    await pass(scene, 2 * 60, 10);
    const stopped = scene.clock.now();
    await scene.minutes(60, minute => {
      scene.account.events.gauges.newest = stopped;
      scene.account.events.log.overdue += minute < 40 ? 1 : 0;
      queueOf(scene.account).entered += 1;
    });
    expect(scene.kinds()).toContain('event_log_behind');
    expect(burnsOf(scene)).toEqual([]);
    expect(scene.isUnknown('deliveries_stalled')).toBe(true);
  });

  it('a stall is found while the log has new events', async () => {
    const scene = await createRecordedScene();
    await pass(scene, 2 * 60, 10);
    await scene.minutes(40, () => {
      scene.account.events.log.overdue += 1;
      queueOf(scene.account).entered += 1;
    });
    expect(burnsOf(scene)).toEqual(['deliveries_stalled']);
  });
});

describe('a key that is paused overnight', () => {
  /** Pauses a key to which 10 of 20 messages a minute are sent. Messages are late five minutes after they joined. */
  function pausing(scene: RecordedScene) {
    const { account } = scene;
    const delivering = ending(scene, 10, 0);
    const waiting = key(account).waitlistSize ?? 0;
    Object.assign(key(account), { paused: true, state: 'paused' });
    const pausedAt = scene.clock.now();
    const late = account.events.log.overdue;
    return (change?: (minute: number) => void) => (minute: number) => {
      const since = (scene.clock.now() - pausedAt) / MINUTE;
      key(account).waitlistSize = waiting + 10 * since;
      // The log is read a minute late.
      account.events.log.overdue = late + (since > 6 ? waiting + 10 * (since - 6) : 0);
      delivering();
      change?.(minute);
    };
  }

  const RESTARTS = [
    ['without a restart', undefined],
    ['with a restart', 0],
    ['with an outage of the agent for half an hour', 30 * MINUTE],
    ['with an outage of the agent for three hours', 3 * HOUR],
  ] as const;

  it.each(RESTARTS)('is the only problem, and is reported at once: %s', async (_what, down) => {
    for (const keep of [0, 48 * HOUR]) {
      const scene = await createRecordedScene({ keep });
      await pass(scene, 9 * 60 + 17, 20);
      const night = pausing(scene);
      const found = new Set<string>();
      const note = () => {
        for (const kind of scene.kinds()) found.add(kind);
      };
      await scene.minutes(4 * 60 + 20, night(), note, 3);
      expect([...found]).toEqual(['paused_with_backlog']);
      if (down !== undefined) await scene.restart(down);
      await scene.minutes(8 * 60, night(), note, 3);
      expect([...found], `keep ${keep}`).toEqual(['paused_with_backlog']);
    }
  });

  it('messages on a key paused overnight are not reported as late, even if keys cannot be read for half an hour', async () => {
    const scene = await createRecordedScene();
    await pass(scene, 9 * 60 + 17, 20);
    const night = pausing(scene);
    const found = new Set<string>();
    const note = () => {
      for (const kind of burnsOf(scene)) found.add(kind);
    };
    await scene.minutes(3 * 60, night(), note, 3);
    scene.setKeysReadable(false);
    const { waitlistSize } = key(scene.account);
    await scene.minutes(
      30,
      night(() => Object.assign(key(scene.account), { waitlistSize })),
      note,
      3,
    );
    expect(scene.isUnknown('messages_late')).toBe(true);
    scene.setKeysReadable(true);
    await scene.minutes(8 * 60, night(), note, 3);
    expect([...found]).toEqual([]);
  });

  it('late messages of other keys are found in the window of six hours', async () => {
    const scene = await createRecordedScene();
    await pass(scene, 9 * 60 + 17, 20);
    const night = pausing(scene);
    await scene.minutes(4 * 60, night());
    let others = 0;
    const busy = night(() => {
      others += 1;
      scene.account.events.log.overdue += others;
    });
    await scene.minutes(7 * 60, busy);
    expect(scene.found('messages_late')[0]).toMatch(
      /^(3[6-9]|4[0-2])\d messages missed the target of 5 min in 6 h( \d+ min)? \(without (3|4),\d{3} on paused keys\)/,
    );
  });
});
