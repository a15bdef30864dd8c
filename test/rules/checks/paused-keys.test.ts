import { describe, expect, it } from 'vitest';
import { NOON } from '../../support/calm-account.ts';
import { finish, finished, key, paused, problems, waitlist } from './check-scene.ts';

/** Messages per minute on a key that is paused at minute 0, and on other keys. */
interface Night {
  /** Messages that join the waitlist of the paused key each minute. */
  readonly joining: number;
  /** Messages that waited on the key when it was paused. */
  readonly waiting?: number;
  readonly delivered?: number;
  /** Messages of other keys that become overdue each minute, from `lateFrom` on. */
  readonly late?: number;
  readonly lateFrom?: number;
  /** Minute at which the key is resumed. */
  readonly resumed?: number;
  readonly isKeyRecorded?: boolean;
}

const TARGET = 5;

/** Returns the kinds of problems `minute` minutes after the pause. */
function kindsAt(minute: number, night: Night): string[] {
  const { joining, waiting = 0, delivered = 10, late = 0, lateFrom = -1e6, isKeyRecorded = true } = night;
  const { resumed = Number.POSITIVE_INFINITY } = night;
  const isPaused = minute < resumed;
  const waitlistAt = (at: number) => (at >= resumed ? 0 : waiting + joining * Math.max(0, at));
  const overdueAt = (at: number) => {
    const since = Math.min(at, resumed) - TARGET;
    const onKey = since < -TARGET ? 0 : since < 0 ? 0 : waiting + joining * since;
    return 1000 + onKey + late * Math.max(0, at - lateFrom);
  };
  const course = (value: (at: number) => number) => (minutesAgo: number) => value(minute - minutesAgo);
  const deliveredAt = (at: number) => 1_000_000 + delivered * at;
  return problems({
    change: account => {
      Object.assign(key(account), {
        paused: isPaused,
        state: isPaused ? 'paused' : 'moving',
        waitlistSize: waitlistAt(minute),
      });
      account.events.log.overdue = overdueAt(minute);
      account.events.gauges.newest = NOON;
      finish(account, { delivered: deliveredAt(minute), failed: 0 });
    },
    courses: {
      delivery_messages_overdue_total: course(overdueAt),
      [finished('delivered')]: course(deliveredAt),
      [finished('failed')]: () => 0,
      [paused]: isKeyRecorded ? course(at => Number(at >= 0 && at < resumed)) : () => undefined,
      [waitlist]: isKeyRecorded ? course(waitlistAt) : () => undefined,
    },
  }).map(({ kind }) => kind);
}

const MINUTES = [1, 4, 6, 10, 20, 30, 45, 60, 66, 90, 120, 480];

describe('late messages on a paused key', () => {
  it.each<[string, Night]>([
    ['half of all messages', { joining: 10 }],
    ['most messages', { joining: 100, delivered: 1 }],
    ['messages that waited before', { joining: 0, waiting: 300, delivered: 1 }],
    ['messages that waited before and new ones', { joining: 5, waiting: 60 }],
    ['all messages, so that none is delivered', { joining: 20, delivered: 0 }],
  ])('messages of a paused key are not late, and the pause is reported at once: %s', (_what, night) => {
    for (const minute of MINUTES) expect(kindsAt(minute, night), `minute ${minute}`).toEqual(['paused_with_backlog']);
  });

  it('messages of a key that was paused until a few minutes ago are not late', () => {
    const night = { joining: 10, waiting: 30, delivered: 5, resumed: 120 };
    for (const minute of [120, 121, 122, 123, 124]) expect(kindsAt(minute, night), `minute ${minute}`).toEqual([]);
  });

  it.each<[string, Night, number, string]>([
    ['before the pause', { joining: 10, late: 2 }, 30, 'messages_late'],
    ['hours after the pause', { joining: 10, late: 2, lateFrom: 400 }, 470, 'messages_late'],
    ['with a long waitlist', { joining: 1, waiting: 5000, late: 2, lateFrom: 400 }, 470, 'messages_late'],
    ['while none is delivered', { joining: 3, late: 2, lateFrom: 400, delivered: 0 }, 470, 'deliveries_stalled'],
    ['after the key is resumed', { joining: 10, late: 2, lateFrom: 20, resumed: 60 }, 100, 'messages_late'],
    ['on a key without history', { joining: 10, isKeyRecorded: false }, 120, 'messages_late'],
  ])('late messages of other keys are still reported: %s', (_when, night, minute, kind) => {
    expect(kindsAt(minute, night)).toContain(kind);
  });
});
