import { describe, expect, it } from 'vitest';
import { scenarios } from '../../src/emulator/scenarios.ts';
import { firstOccurrences, problemCourse, SELDOM } from '../support/problem-course.ts';

/**
 * Expected problems of a scenario: the minute of the demo by which each appears, and its text.
 * scenarios.long.test.ts runs steady, log-lag and rate-limited for hours.
 */
interface Expected {
  readonly minutes: number;
  readonly problems: Readonly<Record<string, readonly [byMinute: number, text: RegExp]>>;
}

const LATE =
  /^\d+ messages missed the target of 5 min in \d+ min(?: \d+ s)?, while [\d,]+ ended \(the objective allows 1 % to be late\)\.$/;
const OLD =
  /^The longest-queued of \d+ dead letters has been in the queue for 2 d 23 h \(objective: 1 d\); largest kind in the queue: status \d+ from [\w./:-]+ \(\d+ of \d+\)\.$/;
/** Reported because no dead letter has expired or been removed so far. */
const EXPIRING =
  /^The longest-queued dead letter (expires in \d+ (min|s)( \d+ s)?,|was due to expire) at [\d: -]+ UTC\.$/;

/** The problem of this scenario starts in the twelfth hour: see scenarios.long.test.ts. */
const LONG = 'stuck-callback';

const EXPECTED: Readonly<Record<string, Expected>> = {
  steady: { minutes: 15, problems: {} },
  neglected: { minutes: 15, problems: { 'warning dlq_old': [0, OLD], 'critical dlq_expiring': [0, EXPIRING] } },
  'dlq-growth': {
    minutes: 25,
    problems: {
      'warning dlq_old': [0, OLD],
      'critical dlq_expiring': [0, EXPIRING],
      'critical messages_late': [10, LATE],
      // The queue is large, so growth by a fifth or by 50 entries takes a while.
      'warning dlq_growing': [
        20,
        /^\d+ dead letters entered in \d+ min( \d+ s)?; the queue grew by \d+ to \d+ in \d+ min( \d+ s)?; fastest growing kind of dead letters in (the last hour|\d+ min( \d+ s)?): status \d+ from .* \(\+\d+ of \+\d+\)\.$/,
      ],
    },
  },
  'flow-control-pileup': {
    minutes: 65,
    problems: {
      'critical messages_late': [10, LATE],
      // The waitlist is empty at first and grows by about five messages a minute.
      'warning waitlist_growing': [
        62,
        /^Key crm "gold" \\ tier: \d+ messages waiting, \+\d+ in 1 h( \d+ s)?; parallelism 1 of 1 in use\.$/,
      ],
    },
  },
  redeliveries: {
    minutes: 50,
    problems: {
      // Redeliveries are counted half an hour later.
      'warning redeliveries_high': [
        48,
        /^\d+ redeliveries were counted in \d+ min( \d+ s)?: destinations receive messages twice\.$/,
      ],
    },
  },
  // The log lags by minutes, which is not a problem.
  'log-lag': { minutes: 16, problems: {} },
  'rate-limited': {
    minutes: 8,
    problems: {
      'warning rate_limited': [
        5,
        /^\d+ of the \d+ requests in (\d+ s|\d min( \d+ s)?) got 429 \([2-5]\d(\.\d)? %\)\.$/,
      ],
    },
  },
  'schedule-missed': {
    minutes: 30,
    problems: {
      'warning dlq_old': [0, OLD],
      'critical dlq_expiring': [0, EXPIRING],
      // The schedule stops in minute 5.
      'warning schedule_missed': [10, /^Schedule reports: no message since 10:04:00 UTC\.$/],
    },
  },
  // A pause is a problem after a day.
  'schedule-paused': { minutes: 15, problems: {} },
  'schedule-deleted': {
    minutes: 20,
    problems: {
      'warning schedule_missed': [20, /^Schedule reports: no message since 10:09:00 UTC\.$/],
    },
  },
  'schedule-twice': {
    minutes: 25,
    problems: {
      'warning schedule_unexpected': [
        25,
        /^Schedule reports started at 10:[12]\d:0[12] UTC, although no start was due\.$/,
      ],
    },
  },
  'stuck-run': {
    minutes: 5,
    problems: {
      'warning run_stuck': [
        1,
        /^(At least )?\d+ workflow runs? (has|have) been in progress for more than 1 h, ((the oldest|one of them) )?since .* UTC: https:\/\/app\.example\.com\/api\/workflows\/\w+, run wfr_\w+\.$/,
      ],
    },
  },
  'quota-nearly-used': {
    minutes: 5,
    problems: {
      'warning quota_ending': [
        0,
        /^At today’s average rate, the daily quota of 500,000 requests ends at about 10:\d\d UTC\.$/,
      ],
    },
  },
  'limit-overwritten': {
    minutes: 15,
    problems: {
      // The limit changes in minute 10.
      'info limit_changed': [11, /^The parallelism of llm was changed from 4 to 40 by 10:10 UTC\.$/],
    },
  },
  outage: {
    minutes: 14,
    // The fault starts in minute 10.
    problems: {
      'critical service_unavailable': [
        11,
        /^The service returns 503 \(service unavailable\): nothing has been read for (\d+ s|\d+ min( \d+ s)?)\.$/,
      ],
    },
  },
};

/**
 * Configuration that reads the event log only as often as problems are checked, because this read is the most expensive one.
 */
const EACH_MINUTE = { ...SELDOM, events: { every: '1m' } };

describe('problems in the demo', () => {
  it.each(Object.entries(EXPECTED))(
    'the demo reports exactly the expected problems in the scenario %s',
    async (scenario, { minutes, problems }) => {
      const reported = firstOccurrences(await problemCourse(scenario, minutes, EACH_MINUTE));
      expect([...reported.keys()].sort()).toEqual(Object.keys(problems).sort());
      for (const [kind, [by, text]] of Object.entries(problems)) {
        expect(reported.get(kind)?.text).toMatch(text);
        expect(reported.get(kind)?.minute, kind).toBeLessThanOrEqual(by);
      }
    },
  );

  it('the expected problems cover every scenario except stuck-callback', () => {
    expect(Object.keys(scenarios).filter(name => !(name in EXPECTED))).toEqual([LONG]);
  });
});
