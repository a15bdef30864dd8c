import { describe, expect, it } from 'vitest';
import { scenarios } from '../../src/emulator/server.ts';
import { firstSaid, problemCourse, SELDOM } from '../support/problem-course.ts';

/**
 * What is said of a scenario, each by a minute of the demo, and in which words it begins. That nothing else is said for hours
 * of steady, log-lag and rate-limited is tried in scenarios.long.test.ts.
 */
interface Expected {
  readonly minutes: number;
  readonly says: Readonly<Record<string, readonly [byMinute: number, text: RegExp]>>;
}

const LATE =
  /^\d+ messages missed the target of 5 min in \d+ min, [\d,]+ ended; the objective allows 1 % to be late\.$/;
const OLD =
  /^The longest-queued of \d+ dead letters has been there for 2 d 23 h \(objective: 1 d\); most: status \d+ from [\w./:-]+ \(\d+\)\.$/;
/** None of them has ever been removed. */
const EXPIRING = /^The longest-queued dead letter expires (in \d+ min, )?at [\d: -]+ UTC\.$/;
const NOT_DELIVERED =
  /^Schedule reports: .*, last delivery at [\d:]{8} UTC; \d+ starts? not delivered in time in \d+ min\.$/;

/** The demo's own begins in the twelfth hour: see scenarios.long.test.ts. */
const LONG = 'stuck-callback';

const EXPECTED: Readonly<Record<string, Expected>> = {
  steady: { minutes: 15, says: {} },
  neglected: { minutes: 15, says: { 'warning dlq_old': [0, OLD], 'critical dlq_expiring': [0, EXPIRING] } },
  'dlq-growth': {
    minutes: 25,
    says: {
      'warning dlq_old': [0, OLD],
      'critical dlq_expiring': [0, EXPIRING],
      'warning messages_failing': [
        10,
        /^\d+ of the \d+ messages that ended in \d+ min failed: [\d.]+ %, where the objective allows 1 %\.$/,
      ],
      'critical messages_late': [10, LATE],
      'warning messages_late': [15, LATE],
      // So many dead letters are there already that it takes a while until they are a fifth more, or 50.
      'warning dlq_growing': [
        20,
        /^\d+ dead letters entered in \d+ min; the queue grew by \d+ to \d+ in \d+ min; most: status 4\d\d from .*\.$/,
      ],
    },
  },
  'flow-control-pileup': {
    minutes: 20,
    says: {
      'critical messages_late': [10, LATE],
      'warning messages_late': [10, LATE],
      // From nothing, some five a minute.
      'warning waitlist_growing': [20, /^Key crm "gold" \\ tier: \d+ wait, \+\d+ in \d+ min\.$/],
    },
  },
  'ghost-slots': {
    minutes: 12,
    // It begins in the second minute.
    says: {
      'warning ghost_slots': [
        10,
        /^Key tenant\/acme, inc. \{eu="1"\}: 1 slot is in use and nothing runs in it; \d+ wait; parallelism \d of 2 in use\.$/,
      ],
    },
  },
  'log-lag': {
    minutes: 16,
    says: { 'info event_log_behind': [15, /^The event log is [234] min behind, after [\d,]+ events in \d+ min\.$/] },
  },
  'rate-limited': {
    minutes: 8,
    says: { 'warning rate_limited': [5, /^\d+ of the \d+ requests in \d min got 429 \([2-5]\d %\)\.$/] },
  },
  'schedule-missed': {
    minutes: 30,
    says: {
      'warning dlq_old': [0, OLD],
      'critical dlq_expiring': [0, EXPIRING],
      // It stops in minute 5, and fails from minute 10 on, which is late five minutes after the start: more than a tenth of an hour's starts soon.
      'warning schedule_missed': [10, /^Schedule reports: no message since 10:04:00 UTC; 1 start missed in \d min\.$/],
      'warning schedule_late': [30, NOT_DELIVERED],
    },
  },
  outage: {
    minutes: 14,
    // It begins in minute 10.
    says: {
      'warning service_unavailable': [
        11,
        /^The service has answered 503 for \d+ (s|min) \(service unavailable\); what is shown was true at 10:09:\d\d UTC\.$/,
      ],
      'critical service_unavailable': [
        13,
        /^The service has answered 503 for \d min \(service unavailable\); what is shown was true at 10:09:\d\d UTC\.$/,
      ],
    },
  },
};

/** The event log only as often as the page is looked at here: to read it costs most. */
const EACH_MINUTE = { ...SELDOM, events: { every: '1m' } };

describe('the demo says what is wrong, and nothing else', () => {
  it.each(Object.entries(EXPECTED))('%s', async (scenario, { minutes, says }) => {
    const said = firstSaid(await problemCourse(scenario, minutes, EACH_MINUTE));
    expect([...said.keys()].sort()).toEqual(Object.keys(says).sort());
    for (const [kind, [by, text]] of Object.entries(says)) {
      expect(said.get(kind)?.text).toMatch(text);
      expect(said.get(kind)?.minute, kind).toBeLessThanOrEqual(by);
    }
  });

  it('of each scenario', () => {
    expect(Object.keys(scenarios).filter(name => !(name in EXPECTED))).toEqual([LONG]);
  });
});
