import { describe, expect, it } from 'vitest';
import type { Account } from '../../src/agent/account.ts';
import { parseConfig } from '../../src/config/load.ts';
import type { CheckKind } from '../../src/model/check-kind.ts';
import { Alerting } from '../../src/rules/alerting.ts';
import { AGENT_CHECKS } from '../../src/rules/checks/agent.ts';
import type { CheckOutcome } from '../../src/rules/checks/check.ts';
import { ACCOUNT_CHECKS, runChecks } from '../../src/rules/checks/run.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import type { Store } from '../../src/store/store.ts';
import { afterThisTest } from '../support/client.ts';
import { json, serve } from '../support/http-service.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { createTestLog, createTestTracer } from '../support/silent.ts';

const SECOND = 1000;
const MINUTE = 60_000;
const never = new AbortController().signal;

type Results = Readonly<Partial<Record<CheckKind, readonly CheckOutcome[]>>>;

/** Creates alerting for one account. Tests set the results of its checks. A webhook receives one request per alert. */
async function setUp() {
  const clock = createManualClock();
  const rows = createMemoryStore();
  const broken = { isFull: false };
  const store: Store = {
    ...rows,
    async commit(...what) {
      if (broken.isFull) throw new Error('disk full');
      await rows.commit(...what);
    },
  };
  const received: {
    status: string;
    startsAt: string;
    labels: Record<string, string>;
    annotations: Record<string, string>;
  }[] = [];
  const hook = await serve((request, response) => {
    let body = '';
    request.on('data', chunk => {
      body += chunk;
    });
    request.on('end', () => {
      received.push(...JSON.parse(body).alerts);
      json(response, {});
    });
  });
  let results: Results = {};
  /** Runs the checks. Only the first check of each kind returns the results configured for that kind. */
  const check = () =>
    runChecks(
      ACCOUNT_CHECKS.map((check, index) => {
        const isFirst = ACCOUNT_CHECKS.findIndex(({ kind }) => kind === check.kind) === index;
        return { ...check, check: () => (isFirst ? (results[check.kind] ?? []) : []) };
      }),
      undefined,
    );
  function configOf(alerts: object) {
    const webhook = { url: hook.url, groupBy: ['alertname', 'account', 'kind', 'subject'], groupWait: '0s' };
    return parseConfig(
      JSON.stringify({
        server: { externalUrl: 'https://dw.example.com/agent' },
        accounts: [{ name: 'a', baseUrl: 'http://127.0.0.1:1', token: 'x' }],
        alerts: { enabled: true, notifiers: [{ name: 'hook', webhook }], ...alerts },
      }),
      'x.yaml',
    ).config;
  }
  const account = { name: 'a', state: () => undefined } as unknown as Account;
  let alerting: Alerting;
  async function start(alerts: object = {}): Promise<void> {
    const deps = { env: {}, store, clock, random: () => 0, log: createTestLog(), tracer: createTestTracer() };
    alerting = new Alerting(configOf(alerts), { ...deps, accounts: () => [] });
    const started = alerting;
    afterThisTest(() => started.close());
    await alerting.open('');
    await alerting.open('a');
    await alerting.evaluate(account, [], check);
  }
  /** Evaluates these results every 15 seconds for `ms` and returns the notices sent. */
  async function run(next: Results, ms = 15 * SECOND): Promise<string> {
    results = next;
    const before = received.length;
    for (let passed = 0; passed < ms; passed += 15 * SECOND) {
      await clock.advance(15 * SECOND);
      for (const evaluate of alerting.evaluations) await evaluate(never);
      for (const send of alerting.sending.senders) await send(never);
    }
    return received
      .slice(before)
      .map(({ status, labels: { alertname, kind, subject } }) =>
        [status, alertname, kind, ...(subject === undefined ? [] : [subject])].join(' '),
      )
      .join('; ');
  }
  await start();
  return {
    run,
    start,
    broken,
    store,
    received,
    phases: () =>
      alerting
        .alerts('a')
        .map(({ labels, state }) => `${labels.alertname} ${state}`)
        .join('; '),
    states: () => alerting.states('a'),
    problems: Object.assign(() => alerting.problems('a'), { now: clock.now }),
    exposed: () => alerting.sourcesOf('a').flatMap(source => [...(source.samples().get('delivery_problem') ?? [])]),
    source: () => [...(alerting.sourcesOf('a')[0]?.samples().get('delivery_watch_alerts') ?? [])],
    async reload(alerts: object) {
      const config = configOf(alerts);
      await alerting.use(config, alerting.sending.prepare(config));
      await alerting.evaluate(account, [], check);
    },
  };
}

const growing = (text = 'The queue grew.') => ({ dlq_growing: [text] });
const UNKNOWN = { isUnknown: true } as const;

describe('built-in alerts', () => {
  it('a built-in alert fires after `for` with the text of the finding and resolves after keepFiringFor', async () => {
    const { run, received } = await setUp();
    expect(await run(growing('Grew by 50.'), 2 * MINUTE)).toBe('');
    expect(await run(growing('Grew by 60.'))).toBe('firing DeliveryDlqGrowing dlq_growing');
    expect(received).toEqual([
      expect.objectContaining({
        labels: { alertname: 'DeliveryDlqGrowing', account: 'a', kind: 'dlq_growing', severity: 'warning' },
        annotations: {
          summary: 'Grew by 60.',
          runbook_url: 'https://dw.example.com/agent/runbooks/DeliveryDlqGrowing',
          status_url: 'https://dw.example.com/agent/accounts/a',
        },
      }),
    ]);
    expect(await run({}, 15 * MINUTE)).toBe('');
    expect(await run({})).toBe('resolved DeliveryDlqGrowing dlq_growing');
  });

  it('a built-in alert fires separately for each subject', async () => {
    const { run } = await setUp();
    const finding = (subject: string) => ({ subject, text: `Key ${subject}.` });
    expect(await run({ paused_with_backlog: [finding('b')] })).toBe(
      'firing DeliveryDispatchPausedWithBacklog paused_with_backlog b',
    );
    expect(await run({ paused_with_backlog: [finding('a'), finding('b')] })).toBe(
      'firing DeliveryDispatchPausedWithBacklog paused_with_backlog a',
    );
  });

  it('a built-in alert neither fires nor resolves while its check, or the result for its subject, is unknown', async () => {
    const { run, phases, states } = await setUp();
    const [one, other] = ['a', 'b'].map(subject => ({ subject, text: subject }));
    await run({ waitlist_stalled: [one, other] as CheckOutcome[] }, 11 * MINUTE);
    const unknown = { waitlist_stalled: [{ subject: 'a', isUnknown: true as const }] };
    expect(await run(unknown, 16 * MINUTE)).toBe('resolved DeliveryWaitlistStalled waitlist_stalled b');
    expect(states().get('DeliveryWaitlistStalled')).toBe('firing');
    expect(await run({ waitlist_stalled: [UNKNOWN], ...growing() }, 30 * MINUTE)).toBe(
      'firing DeliveryDlqGrowing dlq_growing',
    );
    expect(phases()).toBe('DeliveryDlqGrowing firing; DeliveryWaitlistStalled firing');
    expect(await run({ dlq_growing: [UNKNOWN] }, 16 * MINUTE)).toBe(
      'resolved DeliveryWaitlistStalled waitlist_stalled a',
    );
  });

  it.each<[string, Results]>([
    ['DeliveryTokenRejected', { token_rejected: ['Rejected.'] }],
    ['DeliveryAutoCancelBreakerOpen', { breaker_open: [{ subject: 'errors', text: 'Open.' }] }],
    ['DeliveryAutoCancelUnresolved', { cancel_unresolved: [{ subject: 'hung', text: 'Unresolved.' }] }],
    ['DeliveryDispatchPausedWithBacklog', { paused_with_backlog: [{ subject: 'a', text: 'Paused.' }] }],
    ['DeliveryWaitlistStalled', { waitlist_stalled: [{ subject: 'a', text: 'Stalled.' }] }],
    ['DeliveryBlind', { data_stale: [{ subject: 'dlq', text: 'Stale.' }] }],
    ['DeliveryDlqExpiringSoon', { dlq_expiring: ['Expiring.'] }],
    ['DeliveryMessagesLate', { deliveries_stalled: ['Stalled.'] }],
  ])('%s is resolved within a minute after one good answer', async (alert, results) => {
    const { run } = await setUp();
    expect(await run(results, 20 * MINUTE)).toMatch(new RegExp(`^firing ${alert}`));
    expect(await run({}, MINUTE)).toMatch(new RegExp(`^resolved ${alert}`));
  });

  it('a token that is rejected for less than three minutes, as in a rotation, is not reported', async () => {
    const { run } = await setUp();
    expect(await run({ token_rejected: ['Rejected.'] }, 3 * MINUTE - 15 * SECOND)).toBe('');
    expect(await run({}, 5 * MINUTE)).toBe('');
  });

  it.each([25, 5, 2])('an alert on growth is resolved although the agent is killed every %i minutes', async period => {
    const { run, start } = await setUp();
    await run(growing(), 3 * MINUTE);
    const sent: string[] = [];
    // Each process needs a minute to read the data.
    for (let minutes = 0; minutes < 60 && sent.join('') === ''; minutes += period) {
      await start();
      sent.push(await run({ dlq_growing: [UNKNOWN] }, MINUTE), await run({}, (period - 1) * MINUTE));
    }
    expect(sent.filter(text => text !== '')).toEqual(['resolved DeliveryDlqGrowing dlq_growing']);
  });

  it('a built-in alert fires on partial data, but is not resolved by it', async () => {
    const { run } = await setUp();
    expect(await run({ dlq_growing: ['Grew.', UNKNOWN] }, 3 * MINUTE)).toBe('firing DeliveryDlqGrowing dlq_growing');
    expect(await run({ dlq_growing: [UNKNOWN] }, 30 * MINUTE)).toBe('');
  });

  it('a built-in alert is not sent again after a restart and resolves only when data is available', async () => {
    const { run, start, phases } = await setUp();
    await run(growing(), 3 * MINUTE);
    await start();
    expect(await run({ dlq_growing: [UNKNOWN] }, 30 * MINUTE)).toBe('');
    expect(phases()).toBe('DeliveryDlqGrowing firing');
    expect(await run({}, 15 * MINUTE + 30 * SECOND)).toBe('resolved DeliveryDlqGrowing dlq_growing');
  });

  it('a built-in alert is sent even if the store rejects commits', async () => {
    const { run, broken } = await setUp();
    broken.isFull = true;
    expect(await run(growing(), 3 * MINUTE)).toBe('firing DeliveryDlqGrowing dlq_growing');
  });

  it('a built-in alert whose text names a kind of dead letters links to the entries of this kind', async () => {
    const { run, received } = await setUp();
    await run({ dlq_growing: [{ text: 'Grew.', deadLetterKind: 'c0ffee' }] }, 3 * MINUTE);
    expect(received.map(({ annotations }) => annotations.status_url)).toEqual([
      'https://dw.example.com/agent/accounts/a/dlq?kind=c0ffee',
    ]);
  });

  it('a built-in alert is not sent while silenced', async () => {
    const { run, reload, phases } = await setUp();
    await reload({
      silences: [{ match: { alertname: 'DeliveryDlqGrowing' }, until: '2099-01-01T00:00:00Z', reason: 'test' }],
    });
    expect(await run(growing(), 5 * MINUTE)).toBe('');
    expect(phases()).toBe('DeliveryDlqGrowing firing');
  });

  it.each<[string, object]>([
    ['its kind is disabled', { builtin: { disable: ['dlq_growing'] } }],
    ['its severity is below the minimum', { builtin: { severity: 'critical' } }],
    ['built-in alerts are disabled', { builtin: null }],
  ])('a built-in alert resolves at the next evaluation after a reload if %s', async (_why, alerts) => {
    const { run, reload } = await setUp();
    await run(growing(), 3 * MINUTE);
    await reload(alerts);
    expect(await run(growing())).toBe('resolved DeliveryDlqGrowing dlq_growing');
    expect(await run(growing(), 5 * MINUTE)).toBe('');
  });

  it.each<[string, object]>([
    ['its kind is disabled', { builtin: { disable: ['dlq_growing'] } }],
    ['alerts are disabled', { enabled: false }],
  ])(
    'a problem whose alert is not sent, because %s, has a state, which is sent once it is enabled',
    async (_why, alerts) => {
      const { run, start, reload, problems, phases, states, exposed, received } = await setUp();
      await reload(alerts);
      const startedAt = problems.now() + 15 * SECOND;
      expect(await run(growing(), 3 * MINUTE)).toBe('');
      expect(problems()).toEqual([
        expect.objectContaining({ kind: 'dlq_growing', isFiring: true, startsAt: startedAt }),
      ]);
      expect(exposed()).toEqual([{ labels: { kind: 'dlq_growing', severity: 'warning' }, value: 1 }]);
      expect([phases(), states().get('DeliveryDlqGrowing')]).toEqual(['', undefined]);
      await start(alerts);
      expect(await run(growing())).toBe('');
      await reload({});
      expect(await run(growing())).toBe('firing DeliveryDlqGrowing dlq_growing');
      expect(received.at(-1)).toMatchObject({ startsAt: new Date(startedAt).toISOString() });
    },
  );

  it('a problem that starts before its first finding has the start that the data shows', async () => {
    const { run, problems, received } = await setUp();
    const since = problems.now() - MINUTE;
    const stale = { data_stale: [{ subject: 'dlq', text: 'Stale.', since }] };
    expect(await run(stale, 2 * MINUTE)).toBe('');
    expect(problems()).toEqual([expect.objectContaining({ kind: 'data_stale', startsAt: since, isFiring: false })]);
    expect(await run(stale, 30 * SECOND)).toBe('firing DeliveryBlind data_stale dlq');
    expect(received.at(-1)).toMatchObject({ startsAt: new Date(since).toISOString() });
  });

  it('each kind has its own state, even if kinds share the name of the alert', async () => {
    const { run, states } = await setUp();
    const [found, unknown] = [['Down.'], [{ subject: 'dlq', ...UNKNOWN }]];
    expect(await run({ data_stale: [{ subject: 'dlq', text: 'Old.' }] }, 3 * MINUTE)).toBe(
      'firing DeliveryBlind data_stale dlq',
    );
    expect(await run({ data_stale: unknown, service_unavailable: found }, 3 * MINUTE)).toBe(
      'firing DeliveryBlind service_unavailable',
    );
    expect(await run({ service_unavailable: found }, MINUTE)).toBe('resolved DeliveryBlind data_stale dlq');
    const names = ['DeliveryBlind', 'data_stale', 'service_unavailable'];
    expect(names.map(name => states().get(name))).toEqual(['firing', undefined, 'firing']);
  });

  it('the subjects of a kind beyond the first hundred share the subject __other__', async () => {
    const { run, exposed } = await setUp();
    await run({ breaker_open: Array.from({ length: 120 }, (_, n) => ({ subject: `b${n}`, text: 'Open.' })) });
    const subjects = exposed().map(({ labels }) => labels.subject);
    expect([subjects.length, subjects[0], subjects.at(-1)]).toEqual([101, 'b0', '__other__']);
  });

  it('only alerts on shares, growth, forecasts and schedules keep firing for more than two minutes after their last finding', () => {
    const lasting = [...ACCOUNT_CHECKS, ...AGENT_CHECKS].filter(check => check.keepFiringFor > 2 * MINUTE);
    expect([...new Set(lasting.map(({ kind }) => kind))].sort()).toEqual([
      'account_full',
      'destination_failing',
      'dlq_growing',
      'messages_failing',
      'messages_failing_slowly',
      'messages_late',
      'quota_ending',
      'rate_limited',
      'redeliveries_high',
      'schedule_late',
      'schedule_missed',
      'waitlist_growing',
    ]);
  });

  it.each<[CheckKind, string, object]>([
    ['auto_cancel_paused', 'DeliveryAutoCancelBreakerOpen', { severity: 'info' }],
    ['auto_cancel_paused', 'DeliveryAutoCancelBreakerOpen', { severity: 'critical', enable: ['auto_cancel_paused'] }],
    ['dlq_old', 'DeliveryDeadLetters', { enable: ['dlq_old'] }],
  ])('a kind that is not sent by default, %s, is sent as %s with builtin: %j', async (kind, alert, builtin) => {
    const { run, reload, states } = await setUp();
    expect(await run({ [kind]: ['Found.'] }, 20 * MINUTE)).toBe('');
    await reload({ builtin });
    expect(await run({ [kind]: ['Found.'] })).toBe(`firing ${alert} ${kind}`);
    expect([states().get(alert), states().get(kind)]).toEqual(['firing', 'firing']);
  });

  it('the lowest severity does not enable a kind that is off by default', async () => {
    const { run, reload } = await setUp();
    await reload({ builtin: { severity: 'info' } });
    expect(await run({ dlq_old: ['Old.'] }, 20 * MINUTE)).toBe('');
  });

  it('a built-in alert ignores findings of disabled checks', async () => {
    const { run, reload } = await setUp();
    await reload({ builtin: { disable: ['data_stale'] } });
    const stale = [{ subject: 'dlq', text: 'Stale.' }];
    expect(await run({ data_stale: stale }, 5 * MINUTE)).toBe('');
    expect(await run({ service_unavailable: ['Down.'] }, 3 * MINUTE)).toBe('firing DeliveryBlind service_unavailable');
  });

  it('a built-in alert has metrics while it is pending or firing', async () => {
    const { run, source } = await setUp();
    expect(source()).toEqual([]);
    await run(growing());
    expect(source()).toEqual([{ labels: { alert: 'DeliveryDlqGrowing', state: 'pending' }, value: 1 }]);
  });

  it('a built-in alert is unknown before its first evaluation', async () => {
    const { states } = await setUp();
    expect(states().get('DeliveryDlqGrowing')).toBe('unknown');
  });
});
