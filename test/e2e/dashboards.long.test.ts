import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { allGroups } from '../../mixin/rules.ts';
import { createAgent, unlimited } from '../support/agent.ts';
import { startCli } from '../support/cli.ts';
import { afterThisTest } from '../support/client.ts';
import { emulate } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { type Prometheus, requireProgram, startPrometheus } from '../support/prometheus.ts';
import { isDelete, type Scene, setStage } from './stuck-callback.ts';

/**
 * Starts an agent that collects everything, with event destinations, a retention period and an undeliverable alert. Returns
 * its host.
 */
async function startWatching(): Promise<string> {
  const emulator = await emulate({ seed: 3, dialect: { flowControlFields: 'all' } });
  const metric = 'delivery_dlq_messages';
  const agent = createAgent(
    {
      accounts: [
        {
          ...unlimited('a', emulator.url),
          management: {
            baseUrl: emulator.url,
            username: emulator.credentials.login.username,
            password: { env: 'PASSWORD' },
          },
          paths: { account: '/v2/qstash/users' },
          retention: { dlq: '7d' },
          limits: { dlqSize: 10_000, requestsPerDay: 500_000, globalParallelism: 100 },
        },
      ],
      schedules: [{ name: 'emails', match: { queue: 'emails' }, cron: '* * * * *', tz: 'UTC' }],
      collect: {
        flowControl: { every: '1s' },
        routes: ['/jobs/:name', '/api/*path'],
        // The series limit is lower than the number of values, so some values exceed it.
        dlq: {
          every: '1s',
          rescanEvery: '5s',
          breakdowns: ['urlHost', 'route', 'responseStatus'],
          maxSeriesPerBreakdown: 2,
          filters: [{ name: 'emails', match: { queueName: 'emails' } }],
        },
        events: { every: '1s', overlap: '2s', destination: 'host' },
      },
      alerts: {
        enabled: true,
        evaluateEvery: '1s',
        rules: [{ name: 'SomeDeadLetters', when: { above: { metric, value: 0 } } }],
        notifiers: [{ name: 'nobody', webhook: { url: 'http://127.0.0.1:9/' } }],
      },
    },
    { DELIVERY_TOKEN: emulator.token, PASSWORD: emulator.credentials.login.password },
  );
  const { host } = new URL(await agent.start());
  // A message of the schedule fails every two seconds, so that the queue and its filter grow.
  let failures = 0;
  const fail = () => {
    const message = { messageId: `msg_failing_${++failures}`, queueName: 'emails', responseStatus: 500 };
    for (const state of ['created', 'error', 'failed'] as const) emulator.state.addEvent({ ...message, state });
    emulator.state.addDlqEntry(message);
  };
  const growth = setInterval(fail, 2000);
  afterThisTest(async () => clearInterval(growth));
  return host;
}

async function startDemo(scenario: string): Promise<string> {
  const demo = startCli(['demo', '--listen', '127.0.0.1:0', '--scenario', scenario, '--speed', '1']);
  afterThisTest(async () => {
    demo.kill('SIGKILL');
    await demo.ended;
  });
  const [, host = ''] = await demo.says(/status page\s+http:\/\/(\S+)\//);
  return host;
}

/** Starts an agent that cancels stuck callbacks. Returns its host. */
async function startActing(scene: Scene): Promise<string> {
  const stage = await setStage(close => afterThisTest(async () => void (await close())), scene);
  return new URL(await stage.startAgent().listensAt()).host;
}

/** Starts an agent that cancels one callback after another for several minutes. */
const startCancelling = () => startActing({ stuck: 60, autoCancel: { limits: { spacing: '1m' } } });

/** Starts an agent and aborts its cancel requests, so that their outcome stays unknown. */
const startUnresolved = () =>
  startActing({
    hooks: {
      before(request) {
        if (isDelete(request)) throw new Error('cut off');
      },
    },
  });

const SCENARIOS = {
  everything: startWatching,
  'rate-limited': () => startDemo('rate-limited'),
  'log-lag': () => startDemo('log-lag'),
  'stuck-callback': startCancelling,
  unresolved: startUnresolved,
} as const;

type Scenario = keyof typeof SCENARIOS;

/**
 * Scenario of a panel or of a table's column, and a value that one of its series must exceed in it. For others, any number in the
 * scenario `everything` is enough.
 */
const SHOWN: Readonly<Record<string, { readonly scenario: Scenario; readonly above: number }>> = {
  'Age of the newest event': { scenario: 'log-lag', above: 15 },
  'Request budgets': { scenario: 'rate-limited', above: -1 },
  Size: { scenario: 'everything', above: 0 },
  Waitlists: { scenario: 'everything', above: 0 },
  'Ended messages': { scenario: 'everything', above: 0 },
  'Dead letters': { scenario: 'everything', above: 0 },
  Filters: { scenario: 'everything', above: 0 },
  'Dead letters by host': { scenario: 'everything', above: 0 },
  Notifications: { scenario: 'everything', above: 0 },
  'Failure callbacks by state': { scenario: 'stuck-callback', above: 0 },
  // In this scenario the agent's clock is ahead of Prometheus, so ages are negative.
  'Auto-cancel rules': { scenario: 'unresolved', above: Number.NEGATIVE_INFINITY },
  'Auto-cancel rules: Skipped (24 h)': { scenario: 'stuck-callback', above: -1 },
  'Actions by outcome': { scenario: 'stuck-callback', above: 0 },
  'Planned cancels, by later state': { scenario: 'stuck-callback', above: -1 },
};

/** Panels about processes that share a database, which none of the scenarios has. */
const SHARED = /^Leader and standbys:/;

interface Panel {
  readonly title: string;
  readonly type: string;
  readonly targets?: readonly { readonly refId: string; readonly expr: string }[];
  readonly transformations?: readonly {
    readonly options: { readonly renameByName?: Readonly<Record<string, string>> };
  }[];
  readonly panels?: readonly Panel[];
}

interface Dashboard {
  readonly panels: readonly Panel[];
  readonly annotations: { readonly list: readonly { readonly name: string; readonly expr: string }[] };
  readonly templating: { readonly list: readonly { readonly query: string | { readonly query: string } }[] };
}

const read = (name: string) => JSON.parse(readFileSync(`dashboards/${name}.json`, 'utf8')) as Dashboard;

/** Expands variables as Grafana does, with hours shortened to the duration of a test. */
const inJob = (expr: string, job: string) =>
  expr
    // Some states last only seconds, so rates need a short window.
    .replaceAll('$__range', '5m')
    .replaceAll('$__rate_interval', '30s')
    .replaceAll('$__interval', '30s')
    .replaceAll(':1h]', ':15s]')
    .replace(/offset (1h|24h)/g, 'offset 15s')
    .replaceAll('$job', job)
    .replaceAll(/\$(instance|account)\b/g, '.+');

/** Returns the name of a query: that of its column in a table, which remains when columns are inserted, otherwise its letter. */
function nameOf({ title, transformations = [] }: Panel, refId: string): string {
  const names: Readonly<Record<string, string>> = Object.assign(
    {},
    ...transformations.map(({ options }) => options.renameByName),
  );
  return `${title}: ${names[`Value #${refId}`] ?? names.Value ?? refId}`;
}

const EVERYTHING = { scenario: 'everything', above: Number.NEGATIVE_INFINITY } as const;

const queriesOf = ({ panels }: Dashboard) =>
  panels
    .flatMap(panel => [panel, ...(panel.panels ?? [])])
    .flatMap(panel =>
      (panel.targets ?? []).map(({ refId, expr }) => {
        const query = nameOf(panel, refId);
        const { scenario, above } = SHOWN[query] ?? SHOWN[panel.title] ?? EVERYTHING;
        return { query, name: `${query} in ${scenario}`, expr: inJob(expr, scenario), above };
      }),
    );

async function shows(prometheus: Prometheus, expr: string, above: number): Promise<boolean> {
  const series = await prometheus.query(expr);
  return series.some(({ value }) => Number.isFinite(value) && value > above);
}

async function labelValues(prometheus: Prometheus, query: string, job: string): Promise<unknown> {
  const [, selector = '', label = ''] = /^label_values\((.*), (\w+)\)$/.exec(query) ?? [];
  return prometheus.get(`/api/v1/label/${label}/values?${new URLSearchParams({ 'match[]': inJob(selector, job) })}`);
}

describe.skipIf(!requireProgram('prometheus'))('dashboards and rules in a real Prometheus', () => {
  it('a real Prometheus evaluates every rule, and every panel shows data in its scenario', async () => {
    // Prometheus starts first, so that each scenario is scraped from its start.
    const folder = newFolder();
    const targetsOf = (job: string) => join(folder, `${job}.json`);
    const prometheus = await startPrometheus({
      scrapeConfigs: Object.keys(SCENARIOS).map(job => ({
        job_name: job,
        // The scrape timeout cannot exceed this interval, and a busy machine may need more than one second.
        scrape_interval: '5s',
        file_sd_configs: [{ files: [targetsOf(job)], refresh_interval: '1s' }],
      })),
      config: { rule_files: [resolve('dashboards/rules/*.yaml')] },
    });
    afterThisTest(() => prometheus.stop());
    await Promise.all(
      Object.entries(SCENARIOS).map(async ([job, start]) => {
        const target = await start();
        writeFileSync(`${targetsOf(job)}.new`, JSON.stringify([{ targets: [target] }]));
        renameSync(`${targetsOf(job)}.new`, targetsOf(job));
      }),
    );

    const dashboards = ['overview', 'dlq', 'agent'].map(read);
    let missing = dashboards.flatMap(queriesOf).filter(({ name }) => !SHARED.test(name));
    expect(missing.length).toBeGreaterThan(70);
    const shown = new Set(missing.flatMap(({ query }) => [query, query.replace(/: [^:]*$/, '')]));
    expect(Object.keys(SHOWN).filter(name => !shown.has(name))).toEqual([]);
    // Check each panel independently: the data of one may disappear before another has any.
    await eventually(async () => {
      const seen = await Promise.all(missing.map(({ expr, above }) => shows(prometheus, expr, above)));
      missing = missing.filter((_, index) => !seen[index]);
      expect(missing.map(({ name }) => name)).toEqual([]);
    }, 400_000);

    for (const { annotations, templating } of dashboards) {
      for (const { expr } of annotations.list) await prometheus.query(inJob(expr, 'everything'));
      const [, job, instance, account] = templating.list.map(({ query }) =>
        typeof query === 'string' ? query : query.query,
      );
      expect(await labelValues(prometheus, job ?? '', '')).toEqual(Object.keys(SCENARIOS).sort());
      expect(await labelValues(prometheus, instance ?? '', 'everything')).toHaveLength(1);
      expect(await labelValues(prometheus, account ?? '', 'everything')).toEqual(['a']);
    }

    const rules = await eventually(async () => {
      const { groups } = (await prometheus.get('/api/v1/rules')) as {
        groups: { rules: { name: string; health: string; lastError?: string }[] }[];
      };
      const rules = groups.flatMap(({ rules }) => rules);
      expect(rules.filter(({ health }) => health !== 'ok')).toEqual([]);
      return rules;
    });
    expect(rules.map(({ name }) => name).sort()).toEqual(
      [allGroups.default, allGroups.slo]
        .flatMap(({ rules }) => rules.map(({ record, alert }) => record ?? alert))
        .sort(),
    );
  });
});
