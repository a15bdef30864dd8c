import { describe, expect, it } from 'vitest';
import { type CallbackEvidence, evaluate } from '../../src/auto-cancel/evaluate.ts';
import { type AutoCancelRule, autoCancelRule } from '../../src/auto-cancel/options.ts';
import { allowedGap, walkEvery } from '../../src/auto-cancel/stuck-when.ts';
import { trackingOf } from '../../src/auto-cancel/tracking.ts';
import { selectsEntry } from '../../src/model/entry-conditions.ts';
import type { DlqEntry } from '../../src/model/message.ts';

const HOUR = 3_600_000;
const START = Date.UTC(2027, 0, 1);

const ENTRY: DlqEntry = {
  id: '1-0',
  dlqId: '1-0',
  messageId: 'm1',
  createdAt: START,
  enteredAt: START,
  url: 'https://user:canary@api.example.com/jobs/a?token=canary#canary',
  method: 'POST',
  state: 'FAILED',
  topic: undefined,
  queue: undefined,
  schedule: undefined,
  flowControlKey: undefined,
  api: undefined,
  labels: ['nightly', 'crm'],
  responseStatus: 504,
  workflowRunId: 'wfr_1',
  workflowUrl: 'https://api.example.com/jobs/a',
  failureCallbackUrl: 'https://reports.example.com/failed?key=hidden',
  callbackState: 'in_progress',
  maxRetries: undefined,
};

function ruleOf(text: object): AutoCancelRule {
  return autoCancelRule.parse({ name: 'r', match: { label: { in: ['nightly'] } }, ...text });
}

/** Returns evidence of a callback that walks have observed for `hours` up to now. */
function seenFor(hours: number, entry: Partial<DlqEntry> = {}, more: Partial<CallbackEvidence> = {}): CallbackEvidence {
  const lastSeenAt = START + hours * HOUR;
  return {
    sighting: { entry: { ...ENTRY, ...entry }, firstSeenAt: START, lastSeenAt, snapshots: 8, episode: 'e' },
    id: '1-0',
    lastEventAt: START,
    askedAt: lastSeenAt,
    ...more,
  };
}

const verdictOf = (rule: AutoCancelRule, seen: CallbackEvidence) => {
  const { verdict, reason } = evaluate(rule, seen);
  return `${verdict}: ${reason}`;
};

const usual = ruleOf({});
const everything = ruleOf({
  except: { url: { prefix: ['https://payout.example.com/'] } },
  stuckWhen: { inProgressFor: '48h', snapshots: 8, maxGap: '10m', idleFor: '1h' },
});
const blind = ruleOf({ evidence: 'blind', stuckWhen: { seenFor: '72h' } });

describe('rules', () => {
  it('a rule treats a callback as stuck if every predicate holds, and shows predicates without secrets', () => {
    const finding = evaluate(everything, seenFor(49));
    expect(finding.predicates.map(({ name, holds, found, asked }) => `${name} ${holds}: ${found}; ${asked}`)).toEqual([
      'match.label true: nightly, crm; one of nightly',
      'except.url true: https://api.example.com/jobs/a?…; not beginning with https://payout.example.com/',
      'evidence true: in_progress; reported: in_progress',
      'id true: reported; reported',
      'stuckWhen.inProgressFor true: 2 d 1 h; at least 2 d',
      'stuckWhen.snapshots true: 8; at least 8',
      'stuckWhen.pastRetryWindow true: 2 d 1 h; more than 2 d: 1.5 times the window of 5 retries',
      'stuckWhen.idleFor true: 2 d 1 h; at least 1 h',
    ]);
    expect(finding).toMatchObject({ rule: 'r', verdict: 'stuck', reason: 'stuck' });
    expect(JSON.stringify(finding)).not.toContain('canary');
  });

  it('a time and its limit are shown with more units if they would otherwise look equal', () => {
    const { predicates } = evaluate(usual, seenFor(48.2));
    expect(predicates.find(({ name }) => name === 'stuckWhen.pastRetryWindow')).toMatchObject({
      holds: false,
      found: '2 d 12 min',
      asked: 'more than 2 d 14 min: 1.5 times the window of 5 retries',
    });
  });

  it('hostile text from the service is shown as one short line without control characters', () => {
    const { predicates } = evaluate(usual, seenFor(1, { labels: [`\u001b[2J\n\u202e${'x'.repeat(5000)}`] }));
    expect(predicates[0]?.found).toMatch(/^\ufffd\[2J\ufffd\ufffdx{100,200}…$/);
  });

  it.each<[string, AutoCancelRule, CallbackEvidence]>([
    ['stuck: stuck', usual, seenFor(49)],
    ['not_stuck: in_progress_for', usual, seenFor(47.99)],
    // 1.5 × (30.7 h + 6 × 15 min) is more than two days.
    ['not_stuck: past_retry_window', usual, seenFor(48)],
    // Fewer retries of the failed message do not lower the assumed retries of its callback.
    ['not_stuck: past_retry_window', usual, seenFor(48, { maxRetries: 3 })],
    ['not_stuck: past_retry_window', usual, seenFor(48, { maxRetries: 0 })],
    ['stuck: stuck', usual, seenFor(49, { maxRetries: 3 })],
    ['not_stuck: past_retry_window', usual, seenFor(60, { maxRetries: 6 })],
    ['not_stuck: past_retry_window', usual, seenFor(9000, { maxRetries: 1e300 })],
    ['stuck: stuck', usual, seenFor(49, { maxRetries: -1 })],
    ['not_stuck: past_retry_window', usual, seenFor(48, { maxRetries: 0.5 })],
    ['not_stuck: past_retry_window', usual, seenFor(48, { maxRetries: Number.NaN })],
    ['not_stuck: not_in_progress', usual, seenFor(49, { callbackState: 'success' })],
    ['not_stuck: not_in_progress', usual, seenFor(49, { callbackState: 'fail' })],
    ['not_stuck: not_in_progress', usual, seenFor(49, { callbackState: 'canceled' })],
    ['unknown: unknown_callback_state', usual, seenFor(49, { callbackState: 'unknown' })],
    ['unknown: unknown_callback_state', usual, seenFor(1, { callbackState: undefined })],
    ['unknown: no_id', usual, seenFor(49, {}, { id: undefined })],
    ['no_match: no_match', usual, seenFor(49, { labels: ['weekly'] }, { id: undefined })],
    ['unknown: unknown_label', usual, seenFor(49, { labels: [] })],
    ['not_stuck: snapshots', ruleOf({ stuckWhen: { snapshots: 9 } }), seenFor(49)],
    ['not_stuck: idle_for', everything, seenFor(49, {}, { lastEventAt: START + 48.5 * HOUR })],
    ['stuck: stuck', everything, seenFor(49, {}, { lastEventAt: START + 48 * HOUR })],
    ['unknown: unknown_idle_for', everything, seenFor(49, {}, { lastEventAt: 'none' })],
    ['unknown: unknown_idle_for', everything, seenFor(49, {}, { lastEventAt: undefined })],
    ['not_stuck: in_progress_for', everything, seenFor(1, {}, { lastEventAt: undefined })],
    ['stuck: stuck', usual, seenFor(49, {}, { lastEventAt: undefined })],
    ['no_match: excepted', everything, seenFor(49, { url: 'https://payout.example.com/x' })],
    ['unknown: unknown_url', everything, seenFor(49, { url: undefined })],
    ['stuck: stuck', blind, seenFor(73, { callbackState: undefined })],
    ['not_stuck: seen_for', blind, seenFor(71, { callbackState: undefined })],
    ['not_stuck: past_retry_window', blind, seenFor(73, { callbackState: undefined, maxRetries: 6 })],
    ['not_stuck: state_is_reported', blind, seenFor(73)],
    ['not_stuck: state_is_reported', blind, seenFor(73, { callbackState: 'unknown' })],
    ['unknown: no_id', blind, seenFor(73, { callbackState: undefined }, { id: undefined })],
  ])('a rule evaluates the callback as %s', (expected, rule, seen) => expect(verdictOf(rule, seen)).toBe(expected));

  it('a rule measures the idle time from the last event to the event look-up', () => {
    const times = { lastEventAt: START + 48.5 * HOUR, askedAt: START + 48.6 * HOUR };
    expect(verdictOf(everything, seenFor(60, {}, times))).toBe('not_stuck: idle_for');
  });

  it('a rule measures the time in progress up to the last walk that listed the callback', () => {
    const seen = seenFor(1);
    expect(verdictOf(usual, { ...seen, askedAt: seen.askedAt + 900 * HOUR })).toBe('not_stuck: in_progress_for');
  });
});

describe('match and except', () => {
  const match = (match: object, entry: Partial<DlqEntry> = {}) => verdictOf(ruleOf({ match }), seenFor(49, entry));
  it.each<[string, object, Partial<DlqEntry>?]>([
    ['stuck: stuck', { label: { in: ['weekly', 'crm'] } }],
    ['stuck: stuck', { workflowUrl: { in: ['x'], prefix: ['y', 'https://api.example.com/'] } }],
    ['no_match: no_match', { workflowUrl: { prefix: ['api.example.com'] } }],
    ['stuck: stuck', { workflowUrl: { matches: 'https://[a-z]+\\.example\\.com/jobs/.*' } }],
    // The complete value must match.
    ['no_match: no_match', { workflowUrl: { matches: 'example\\.com' } }],
    ['stuck: stuck', { failureCallbackUrl: { prefix: ['https://reports.example.com/'] } }],
    ['stuck: stuck', { failureCallbackUrl: { in: ['https://reports.example.com/failed?key=hidden'] } }],
    ['stuck: stuck', { failureCallbackUrl: { matches: 'https://reports[.]example[.]com/.*' } }],
    ['no_match: no_match', { failureCallbackUrl: { prefix: ['https://other.example.com/'] } }],
    [
      'unknown: unknown_failure_callback_url',
      { failureCallbackUrl: { prefix: ['https://reports.example.com/'] } },
      { failureCallbackUrl: undefined },
    ],
    ['no_match: no_match', { label: { matches: 'night|ly' } }],
    ['stuck: stuck', { responseStatus: { in: [500, 504] } }],
    ['stuck: stuck', { responseStatus: { prefix: [5] } }],
    ['stuck: stuck', { responseStatus: { in: [0] } }, { responseStatus: 0 }],
    ['no_match: no_match', { responseStatus: { in: [50] } }],
    ['unknown: unknown_response_status', { responseStatus: { in: [500] } }, { responseStatus: undefined }],
    ['unknown: unknown_flow_control_key', { label: { in: ['nightly'] }, flowControlKey: { in: ['jobs'] } }],
    ['no_match: no_match', { label: { in: ['weekly'] }, flowControlKey: { in: ['jobs'] } }],
    [
      'stuck: stuck',
      { queue: { in: ['a'] }, topic: { in: ['b'] }, schedule: { in: ['c'] } },
      { queue: 'a', topic: 'b', schedule: 'c' },
    ],
    [
      'no_match: no_match',
      { queue: { in: ['a'] }, topic: { in: ['b'] }, schedule: { in: ['x'] } },
      { queue: 'a', topic: 'b', schedule: 'c' },
    ],
    ['unknown: unknown_queue', { queue: { matches: 'x+' } }, { queue: 'x'.repeat(8193) }],
    ['stuck: stuck', { queue: { matches: 'x+' } }, { queue: 'x'.repeat(8192) }],
    ['stuck: stuck', { queue: { matches: 'y+', prefix: ['x'] } }, { queue: 'x'.repeat(8193) }],
  ])('a rule evaluates to %s with match %j and the fields %j', (expected, ways, entry) =>
    expect(match(ways, entry)).toBe(expected),
  );

  it('an except condition on failureCallbackUrl excludes matching callbacks, is unknown without a reported URL, and shows no query', () => {
    const rule = ruleOf({ except: { failureCallbackUrl: { prefix: ['https://reports.example.com/'] } } });
    expect(verdictOf(rule, seenFor(49))).toBe('no_match: excepted');
    expect(verdictOf(rule, seenFor(49, { failureCallbackUrl: 'https://other.example.com/' }))).toBe('stuck: stuck');
    expect(verdictOf(rule, seenFor(49, { failureCallbackUrl: undefined }))).toBe(
      'unknown: unknown_failure_callback_url',
    );
    expect(JSON.stringify(evaluate(rule, seenFor(49)))).toContain('https://reports.example.com/failed?…"');
    expect(JSON.stringify(evaluate(rule, seenFor(49)))).not.toContain('hidden');
  });

  it('an except condition excludes an entry that matches any of its keys, and is unknown if a key is not reported', () => {
    const rule = ruleOf({ except: { label: { in: ['keep'] }, responseStatus: { in: [504] } } });
    expect(verdictOf(rule, seenFor(49))).toBe('no_match: excepted');
    expect(verdictOf(rule, seenFor(49, { responseStatus: 500 }))).toBe('stuck: stuck');
    expect(verdictOf(rule, seenFor(49, { responseStatus: undefined }))).toBe('unknown: unknown_response_status');
  });
});

describe('walks that rules require', () => {
  const unreported = { ...ENTRY, callbackState: undefined };

  it('blind rules track matching entries without a reported state', () => {
    const isTracked = (rule: AutoCancelRule, entry: DlqEntry) =>
      trackingOf([rule], 600_000).unreported.some(selector => selectsEntry(selector, entry));
    expect(isTracked(blind, unreported)).toBe(true);
    expect(isTracked(usual, unreported)).toBe(false);
    expect(isTracked(blind, { ...unreported, labels: ['weekly'] })).toBe(false);
    expect(isTracked(blind, { ...unreported, labels: [] })).toBe(false);
    expect(isTracked({ ...blind, except: { responseStatus: { in: ['504'] } } }, unreported)).toBe(false);
  });

  it('the shortest maxGap of all rules applies, and the queue is walked at least twice within it', () => {
    const gap = (maxGap: string) => ruleOf({ stuckWhen: { maxGap } });
    const rescanEvery = 600_000;
    expect(allowedGap([], rescanEvery)).toBe(1_800_000);
    expect(allowedGap([usual], 3_600_000)).toBe(10_800_000);
    expect(allowedGap([usual, gap('2h'), gap('10m')], rescanEvery)).toBe(600_000);
    expect(walkEvery([usual, gap('2h'), gap('10m')], rescanEvery)).toBe(300_000);
    expect(walkEvery([usual, gap('2h')], rescanEvery)).toBe(rescanEvery);
    expect(walkEvery([], rescanEvery)).toBe(rescanEvery);
  });
});
