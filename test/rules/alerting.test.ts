import { describe, expect, it } from 'vitest';
import type { Account } from '../../src/agent/account.ts';
import { openJournal } from '../../src/auto-cancel/journal.ts';
import { createNoticeSource } from '../../src/auto-cancel/notices.ts';
import { configuredAlerts } from '../../src/cli/offline-rules.ts';
import { parseConfig } from '../../src/config/load.ts';
import { writeYaml } from '../../src/config/yaml-file.ts';
import { Recorder } from '../../src/history/recorder.ts';
import type { Clock } from '../../src/kit/clock.ts';
import type { Sample, Source } from '../../src/metrics/family.ts';
import type { JournalEntry, JournalTarget } from '../../src/model/journal.ts';
import { Alerting } from '../../src/rules/alerting.ts';
import { type ActiveSeries, evaluateCondition } from '../../src/rules/evaluate-condition.ts';
import { createAlertEvidence, createAlertFacts, createSelection, windowsOf } from '../../src/rules/facts.ts';
import { createCollectorState } from '../../src/scheduler/board.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import type { Store } from '../../src/store/store.ts';
import { afterThisTest } from '../support/client.ts';
import { startHttpService } from '../support/http-service.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { createTestLog, createTestTracer } from '../support/silent.ts';

const SECOND = 1000;
const MINUTE = 60_000;
const never = new AbortController().signal;

/** A name that PromQL has to escape. */
const WEIRD = 'weird "label" \\ | .*';

function configWith(sections: object) {
  const accounts = ['a', 'b'].map(name => ({ name, baseUrl: 'http://127.0.0.1:1', token: 'x' }));
  const filters = ['large', 'payments', 'x', 'odd \ud800', '\n"', WEIRD].map(name => ({
    name,
    match: { url: `https://${name.length}` },
  }));
  const collect = { dlq: { filters } };
  return parseConfig(JSON.stringify({ accounts, collect, ...sections }), 'x.yaml').config;
}

/** Creates an account with a dead-letter queue that is unread until `read` sets its size. */
function createTestAccount(config: ReturnType<typeof configWith>, clock: ReturnType<typeof createManualClock>) {
  const slot = createCollectorState(
    { account: 'a', collector: 'dlq' },
    { new: { every: 30_000 }, full: { every: 30_000 } },
    config.staleness,
    clock,
  );
  let size = 0;
  const source: Source = {
    account: 'a',
    families: [
      { name: 'delivery_dlq_messages', type: 'gauge', help: '', labels: [] },
      { name: 'delivery_dlq_filter_messages', type: 'gauge', help: '', labels: ['filter'] },
    ],
    revision: () => size,
    samples: () =>
      new Map<string, readonly Sample[]>([
        ['delivery_dlq_messages', [{ labels: {}, value: size }]],
        [
          'delivery_dlq_filter_messages',
          [
            { labels: { filter: 'large' }, value: size },
            { labels: { filter: 'payments' }, value: 0 },
            { labels: { filter: 'odd \ufffd' }, value: 0 },
          ],
        ],
      ]),
  };
  const account = {
    name: 'a',
    sources: [source],
    state: (collector: string) => (collector === 'dlq' ? slot : undefined),
  } as unknown as Account;
  return {
    account,
    source,
    slot,
    read(entries: number, rounds: readonly string[] = ['new', 'full'], partial = false) {
      size = entries;
      for (const round of rounds) slot.observed(round, { at: clock.now(), facts: {}, partial });
    },
  };
}

/** Opens alerting for account a. */
async function open(
  config: ReturnType<typeof configWith>,
  { clock, store }: { readonly clock: Clock; readonly store: Store },
): Promise<Alerting> {
  const common = { env: {}, store, clock, random: () => 0, log: createTestLog(), tracer: createTestTracer() };
  const alerting = new Alerting(config, { ...common, accounts: () => [] });
  afterThisTest(() => alerting.close());
  for (const name of ['', 'a']) await alerting.open(name);
  return alerting;
}

const above = (value: number, labels: object = {}) => ({ above: { metric: 'delivery_dlq_messages', labels, value } });
const aboveOfFilter = (value: number, filter: readonly string[]) => ({
  above: { metric: 'delivery_dlq_filter_messages', labels: { filter }, value },
});
const rule = (name: string, when: object, more: object = {}) => ({ name, when, ...more });

describe('evidence', () => {
  const growth = { growth: { metric: 'delivery_dlq_messages', over: '2m', atLeast: 5 } };
  const odd = { below: { metric: 'delivery_dlq_filter_messages', labels: { filter: 'odd \ufffd' }, value: 1 } };
  const config = configWith({
    alerts: {
      enabled: true,
      rules: [rule('Some', aboveOfFilter(0, ['large', 'x'])), rule('Grows', growth), rule('Odd', odd)],
    },
  });
  async function setUp() {
    const clock = createManualClock();
    const { account, source, slot, read } = createTestAccount(config, clock);
    const conditions = config.alerts.rules.map(({ when }) => when);
    const facts = createAlertFacts(account, [source]);
    const history = await Recorder.open({ account: 'a', store: createMemoryStore(), clock, log: createTestLog() });
    const evidence = createAlertEvidence(conditions, facts, clock, history);
    const selection = createSelection(conditions.flatMap(windowsOf), facts);
    const sample = () => history.sample(selection().values);
    const resultOf = (number: number) => {
      const condition = conditions[number];
      const result = condition && evaluateCondition(condition, evidence);
      if (result === undefined || result === 'unknown') return result;
      const listed = (holding: readonly ActiveSeries[]) =>
        holding.map(({ labels, value }) => `${labels.filter ?? 'whole'} ${value}`).join();
      return 'atLeast' in result ? `at least ${listed(result.atLeast)}` : listed(result);
    };
    return { clock, sample, resultOf, slot, read };
  }

  it('a condition is unknown until every required round has completed, and while any of them is stale', async () => {
    const { clock, resultOf, slot, read } = await setUp();
    expect(resultOf(0)).toBe('unknown');
    read(3, ['new']);
    expect(resultOf(0)).toBe('unknown');
    read(3, ['full']);
    expect(resultOf(0)).toBe('large 3');
    // Label values are compared as exposed to Prometheus, without lone surrogates.
    expect(resultOf(2)).toBe('odd \ufffd 0');
    await clock.advance(91_000);
    expect(slot.status().rounds.every(({ stale }) => stale)).toBe(true);
    expect(resultOf(0)).toBe('unknown');
    read(0, ['full']);
    expect(resultOf(0)).toBe('unknown');
    read(0, ['new']);
    expect(resultOf(0)).toBe('');
  });

  it('partial data can prove that a value is above a limit, but not that a value is below a limit or has grown', async () => {
    const { clock, sample, resultOf, slot, read } = await setUp();
    const succeed = (partial: boolean) => slot.succeeded('full', { durationSeconds: 1, partial });
    const readPart = (entries: number) => read(entries, ['full'], true);
    read(3);
    succeed(true);
    expect([resultOf(0), resultOf(1)]).toEqual(['at least large 3', 'unknown']);
    slot.failed('full', { durationSeconds: 1, complete: false, reason: 'server', message: 'status 500' });
    expect(resultOf(0)).toBe('at least large 3');
    readPart(0);
    expect(resultOf(0)).toBe('at least ');
    for (let second = 0; second <= 120; second += 30) {
      await sample();
      await clock.advance(30 * SECOND);
      readPart(0);
    }
    read(9);
    succeed(false);
    expect([resultOf(0), resultOf(1)]).toEqual(['large 9', 'unknown']);
  });

  it('growth requires a sample at the start of the window', async () => {
    const { clock, sample, resultOf, read } = await setUp();
    await sample();
    read(10);
    for (let minute = 0; minute < 2; minute += 1) {
      await clock.advance(MINUTE);
      read(10 + minute);
      await sample();
      // Each of these windows starts before the first read.
      expect(resultOf(1)).toBe('unknown');
    }
    await clock.advance(MINUTE);
    read(200);
    await sample();
    expect(resultOf(1)).toBe('whole 190');
  });
});

describe('rules for accounts', () => {
  it('alerts of an account are evaluated only for rules that apply to it, and states() returns firing and unknown rules', async () => {
    const clock = createManualClock();
    const config = configWith({
      alerts: {
        enabled: true,
        rules: [
          rule('Some', above(0)),
          rule('Pending', above(0), { for: '1h' }),
          rule('Others', above(0, { account: 'b' })),
          rule('NotRead', { stale: { collector: 'flow_control' } }),
        ],
      },
    });
    const { account, source, read } = createTestAccount(config, clock);
    const alerting = await open(config, { clock, store: createMemoryStore() });
    await alerting.evaluate(account, [source]);
    const evaluate = async () => {
      for (const body of alerting.evaluations) await body(never);
      return alerting.alerts().map(({ state, labels }) => `${state} ${labels.alertname} ${labels.account}`);
    };
    // The state of a rule is unknown before its first evaluation.
    expect([...alerting.states('a')]).toEqual([
      ['Some', 'unknown'],
      ['Pending', 'unknown'],
    ]);
    read(1);
    expect(await evaluate()).toEqual(['firing Some a', 'pending Pending a']);
    expect([...alerting.states('a')]).toEqual([['Some', 'firing']]);
    expect(alerting.states('b').size).toBe(0);
    expect(
      alerting
        .sourcesOf('a')[0]
        ?.samples()
        .get('delivery_watch_alerts')
        ?.map(({ labels, value }) => `${labels.alert} ${labels.state} ${value}`),
    ).toEqual([
      'Some pending 0',
      'Some firing 1',
      'Some silenced 0',
      'Some beyond_cap 0',
      'Pending pending 1',
      'Pending firing 0',
      'Pending silenced 0',
      'Pending beyond_cap 0',
    ]);
    await clock.advance(10 * MINUTE);
    expect(await evaluate()).toEqual(['firing Some a', 'pending Pending a']);
    read(0);
    expect(await evaluate()).toEqual(['resolved Some a']);
    expect(alerting.states('a').size).toBe(0);
  });
});

describe('notices of auto-cancel', () => {
  const target: JournalTarget = {
    account: 'a',
    id: '1-0',
    dlqId: '1-0',
    messageId: undefined,
    workflowRunId: 'wfr_1',
    url: 'https://x.example/',
    workflowUrl: 'https://jobs.example/nightly',
    responseStatus: 500,
    episode: 'e',
  };
  const at = createManualClock().now();
  const common = { at, action: 'f00', target, evidence: [] };
  const LINES: JournalEntry[] = [
    { ...common, rule: 'notified', step: 'marked', mode: 'enforce', policy: 'p', until: 60_000 },
    { ...common, rule: 'notified', step: 'awaiting_approval', mode: 'approve', policy: 'p', until: 60_000 },
    { at, action: 'f00', step: 'approved', by: 'x' },
    { ...common, rule: 'notified', step: 'ended', mode: 'enforce', outcome: 'confirmed', reason: 'read_canceled' },
    { ...common, rule: 'notified', step: 'ended', mode: 'plan', outcome: 'planned', reason: 'stuck' },
    { ...common, rule: 'silent', step: 'ended', mode: 'plan', outcome: 'planned', reason: 'stuck' },
    { at, step: 'paused', by: 'x', reason: 'x' },
  ];

  async function setUp() {
    const bodies: { alerts: { labels: Record<string, string>; annotations: Record<string, string> }[] }[] = [];
    const answer = { status: 200 };
    const hook = await startHttpService((request, response) => {
      let text = '';
      request.setEncoding('utf8').on('data', chunk => {
        text += chunk;
      });
      request.on('end', () => {
        bodies.push(JSON.parse(text));
        response.writeHead(answer.status).end();
      });
    });
    afterThisTest(() => hook.close());
    const cancelRule = { match: { url: { prefix: ['https://x.example/'] } } };
    const configOf = (names: readonly string[]) =>
      configWith({
        alerts: {
          notifiers: names.map(name => ({ name, webhook: { url: `${hook.url}/${name}` } })),
        },
        autoCancel: {
          rules: [
            { ...cancelRule, name: 'notified', notify: names.slice(0, 1) },
            { ...cancelRule, name: 'silent' },
          ],
        },
      });
    const clock = createManualClock();
    const memory = createMemoryStore();
    const commits: string[][] = [];
    const store = {
      ...memory,
      isFull: false,
      async commit(...[name, changes]: Parameters<typeof memory.commit>) {
        if (store.isFull) throw new Error('disk full');
        commits.push(
          changes.map(({ key, value }) => `${value === null ? '-' : '+'}${key.split('/').slice(0, 2).join('/')}`),
        );
        await memory.commit(name, changes);
      },
    };
    const start = async (names = ['hook', 'other']) => {
      const config = configOf(names);
      const alerting = await open(config, { clock, store });
      const journal = await openJournal(store, 'a');
      await alerting.sending.watch(createNoticeSource('a', journal, config.autoCancel.rules));
      return { alerting, journal };
    };
    const send = (alerting: Alerting) => Promise.all(alerting.sending.senders.map(sender => sender(never)));
    return { answer, clock, hook, bodies, store, commits, start, send };
  }

  it('auto-cancel sends notices only to the notifiers of the rule, even if alerts are disabled', async () => {
    const { hook, bodies, start, send } = await setUp();
    const { alerting, journal } = await start();
    await journal.append(LINES);
    expect(journal.state.actions.get('f00')?.ended).toBeUndefined();
    await send(alerting);
    expect(new Set(hook.requests)).toEqual(new Set(['POST /hook']));
    const alerts = bodies.flatMap(({ alerts }) => alerts);
    expect(
      alerts.map(({ labels: { alertname, rule, outcome, action } }) => [alertname, rule, outcome, action]),
    ).toEqual([
      ['DeliveryAutoCancelMarked', 'notified', undefined, 'f00'],
      ['DeliveryAutoCancelAwaitingApproval', 'notified', undefined, 'f00'],
      ['DeliveryAutoCancelEnded', 'notified', 'confirmed', 'f00'],
      ['DeliveryAutoCancelPlanned', 'notified', 'planned', 'f00'],
    ]);
    expect(alerts[2]?.annotations).toEqual({
      summary:
        'The cancel of a failure callback of a ended (confirmed): the service reports the callback as cancelled.',
      workflow_run_id: 'wfr_1',
      url: 'https://jobs.example/nightly',
      response_status: '500',
      dlq_id: '1-0',
      reason: 'read_canceled',
    });
  });

  it('each notice of a journal is sent at least once, even after a failure, a crash or a restart', async () => {
    const { answer, bodies, store, commits, start, send } = await setUp();
    const { journal } = await start();
    commits.length = 0;
    // The process dies before it sends the notice.
    await journal.append(LINES.slice(3, 4));
    expect(commits).toEqual([['+auto-cancel/journal']]);
    answer.status = 503;
    const { alerting } = await start();
    await send(alerting);
    expect(bodies).toHaveLength(1);
    answer.status = 200;
    const next = await start();
    await send(next.alerting);
    await send(next.alerting);
    expect(bodies).toHaveLength(2);
    const last = await start();
    await send(last.alerting);
    expect(bodies).toHaveLength(2);
    store.isFull = true;
    await expect(last.journal.append(LINES.slice(0, 1))).rejects.toThrow('disk full');
    await send(last.alerting);
    expect(bodies).toHaveLength(2);
  });

  it('a receiver gets the notices of journal lines that are added after the receiver and are at most a day old', async () => {
    const { clock, bodies, start, send, answer } = await setUp();
    const { journal } = await start([]);
    await journal.append(LINES);
    const { alerting, journal: own } = await start();
    await send(alerting);
    expect(bodies).toEqual([]);
    answer.status = 503;
    await own.append([{ ...LINES[3], at: clock.now() } as JournalEntry]);
    await send(alerting);
    await clock.advance(24 * 60 * MINUTE + 1);
    await own.append([{ ...LINES[4], at: clock.now() } as JournalEntry]);
    answer.status = 200;
    bodies.length = 0;
    await send(alerting);
    expect(bodies.flatMap(({ alerts }) => alerts.map(({ labels }) => labels.alertname))).toEqual([
      'DeliveryAutoCancelPlanned',
    ]);
    expect(alerting.sending.notifications().filter(({ notifier }) => notifier === 'hook')).toEqual([
      { notifier: 'hook', outcome: 'sent', count: 1 },
      { notifier: 'hook', outcome: 'failed', count: 1 },
      { notifier: 'hook', outcome: 'dropped', count: 1 },
    ]);
  });

  it('a notice that a receiver refuses with 400 is not sent again, and one refused with 401 is sent again later', async () => {
    const { clock, bodies, start, send, answer } = await setUp();
    const { alerting, journal } = await start();
    answer.status = 400;
    await journal.append(LINES.slice(3, 4));
    await send(alerting);
    answer.status = 401;
    await journal.append(LINES.slice(4, 5));
    await send(alerting);
    await send(alerting);
    expect(bodies).toHaveLength(2);
    answer.status = 200;
    await clock.advance(4 * 60 * MINUTE);
    await send(alerting);
    expect(bodies.flatMap(({ alerts }) => alerts.map(({ labels }) => labels.alertname))).toEqual([
      'DeliveryAutoCancelEnded',
      'DeliveryAutoCancelPlanned',
      'DeliveryAutoCancelPlanned',
    ]);
  });
});

describe('printed Prometheus rules', () => {
  const metric = 'delivery_dlq_messages';
  const counter = { metric: 'delivery_dlq_filter_entered_total', labels: { filter: ['payments', WEIRD] } };
  const config = configWith({
    server: { externalUrl: 'https://dw.example' },
    alerts: {
      evaluateEvery: '10s',
      rules: [
        rule('Above', above(1.5), {
          for: '90s',
          keepFiringFor: '1h',
          labels: { severity: 'x' },
          annotations: { summary: '{{ $value }}' },
        }),
        rule('Below', { below: { metric: 'delivery_up', value: -1 } }),
        rule('Growth', { growth: { metric, over: '1h', atLeast: 1 } }),
        rule('Age', { age: { metric: 'delivery_dlq_oldest_entered_timestamp_seconds', above: '36h' } }),
        rule('Ratio', {
          ratio: { part: counter, whole: { metric: 'delivery_messages_overdue_total' }, over: '15m', above: 0.05 },
        }),
        rule('Stale', { stale: { collector: 'dlq', round: 'full' } }),
      ],
    },
  });

  it('Prometheus rules for the configured alerts match the golden file', async () => {
    const file = { groups: [{ name: 'delivery-watch', ...configuredAlerts(config) }] };
    await expect(writeYaml(file)).toMatchFileSnapshot('golden/alert-rules.yaml');
  });
});
