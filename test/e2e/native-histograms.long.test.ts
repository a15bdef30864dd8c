import { expect, it } from 'vitest';
import { startAgent, unlimited } from '../support/agent.ts';
import { createChance } from '../support/chance.ts';
import { afterThisTest } from '../support/client.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { type TrueEvent, truthOf } from '../support/event-truth.ts';
import { eventually } from '../support/eventually.ts';
import { findNewerPrometheus } from '../support/newer-packages.ts';
import { type Prometheus, requireProgram, startPrometheus } from '../support/prometheus.ts';
import { traffic } from '../support/traffic.ts';

const MESSAGES = 800;
/** Growth factor of buckets in schema 3. */
const BUCKET = 2 ** (1 / 8);

/** Starts an agent that reads an emulated event log for one host, and a Prometheus with these scrape jobs. */
async function startScene(options: Pick<Parameters<typeof startPrometheus>[0], 'program' | 'flags'>, jobs: object[]) {
  const emulator = await emulateEmpty();
  const { url } = await startAgent(
    {
      accounts: [unlimited('a', emulator.url)],
      collect: {
        flowControl: { enabled: false },
        dlq: { enabled: false },
        events: { every: '150ms', overlap: '1s', destination: 'host', destinationHistograms: true },
      },
    },
    emulator.token,
  );
  const prometheus = await startPrometheus({
    ...options,
    scrapeConfigs: jobs.map(job => ({ ...job, static_configs: [{ targets: [new URL(url).host] }] })),
  });
  afterThisTest(() => prometheus.stop());
  // Counting starts with the first read, and `increase` needs a scrape that precedes the events.
  await eventually(async () =>
    expect(await prometheus.query('delivery_collector_success{round="tail"} == 1')).toHaveLength(jobs.length),
  );
  const send = (host: string, events: readonly TrueEvent[]) =>
    emulator.state.addEvents(
      events.map(({ status, ...event }) => ({ ...event, responseStatus: status, url: `https://${host}/` })) as never,
    );
  return { prometheus, send };
}

const lives = () => traffic(createChance(), { messages: MESSAGES, span: 1000, start: Date.now() + 200 });

async function numberOf({ query }: Prometheus, promql: string): Promise<number | undefined> {
  const [one, ...others] = await query(promql);
  expect(others).toEqual([]);
  return one?.value;
}

/** Expects quantiles computed by Prometheus to match the emulated events within one bucket. */
async function expectQuantiles(prometheus: Prometheus, all: readonly TrueEvent[], labels: string): Promise<void> {
  const truth = truthOf(all, Number.POSITIVE_INFINITY);
  const families: [string, number[]][] = [
    [`delivery_message_time_to_deliver_seconds{${labels}}`, truth.timeToDeliver],
    [`delivery_message_queue_wait_seconds{${labels}}`, truth.queueWait],
    [`delivery_attempt_duration_seconds{result="error"}`, truth.attempt.error ?? []],
  ];
  for (const [series, values] of families) {
    await eventually(async () =>
      expect(await numberOf(prometheus, `histogram_count(${series})`), series).toBe(values.length),
    );
    const sum = values.reduce((sum, ms) => sum + ms / 1000, 0);
    expect(await numberOf(prometheus, `histogram_sum(${series})`)).toBeCloseTo(sum, 5);
    for (const quantile of [0.01, 0.1, 0.5, 0.9, 0.99]) {
      const is = (values[Math.ceil(quantile * values.length) - 1] ?? Number.NaN) / 1000;
      const answer = (await numberOf(prometheus, `histogram_quantile(${quantile}, ${series})`)) ?? Number.NaN;
      expect(answer, `quantile ${quantile} of ${series}`).toBeGreaterThanOrEqual(is / BUCKET - 1e-9);
      expect(answer, `quantile ${quantile} of ${series}`).toBeLessThanOrEqual(is * BUCKET + 1e-9);
    }
  }
}

it.skipIf(!requireProgram('prometheus'))(
  'Prometheus with native histograms computes the quantiles of the event log to within one bucket',
  async () => {
    const flags = ['--enable-feature=native-histograms'];
    const { prometheus, send } = await startScene({ flags }, [{ job_name: 'native' }]);
    const all = lives();
    send('old.example.com', all);
    await expectQuantiles(prometheus, all, 'destination="old.example.com"');
  },
);

const newer = findNewerPrometheus();

it.skipIf(newer === undefined)(
  'a newer Prometheus counts the first event of a destination, in counters and both kinds of histograms',
  async () => {
    const flags = ['--enable-feature=created-timestamp-zero-ingestion,native-histograms'];
    const { prometheus, send } = await startScene({ flags, program: newer ?? '' }, [
      { job_name: 'messages', scrape_classic_histograms: true },
      { job_name: 'text', scrape_protocols: ['PrometheusText0.0.4'] },
    ]);
    // Add all events at once, so that the first scrape with this destination contains all of them.
    const now = Date.now();
    send('new.example.com', [
      { messageId: 'first', state: 'created', time: now - 900 },
      { messageId: 'first', state: 'active', time: now - 800 },
      { messageId: 'first', state: 'delivered', time: now - 100, status: 200 },
    ]);
    const labels = 'destination="new.example.com"';
    const increase = (job: string, series: string) =>
      numberOf(prometheus, `sum(increase(${series.replace('}', `,job="${job}"}`)}[5m]))`);
    const delivered = `delivery_events_total{${labels},state="delivered"}`;
    const seen = [
      delivered,
      `delivery_messages_finished_total{${labels},outcome="delivered"}`,
      `delivery_message_time_to_deliver_seconds_bucket{${labels},le="+Inf"}`,
      `delivery_message_time_to_deliver_seconds_count{${labels}}`,
    ];
    await eventually(async () => {
      for (const series of seen) {
        const first = (await increase('messages', series)) ?? 0;
        // Prometheus extrapolates to the ends of the window.
        expect(first, series).toBeGreaterThanOrEqual(1);
        expect(first, series).toBeLessThan(2);
      }
      expect(await increase('text', delivered)).toBe(0);
      const series = `delivery_message_time_to_deliver_seconds{${labels},job="messages"}`;
      expect(await numberOf(prometheus, `histogram_count(${series})`)).toBe(1);
      const wait = await numberOf(prometheus, `histogram_quantile(0.5, ${series})`);
      expect(wait).toBeGreaterThan(0.8 / BUCKET);
      expect(wait).toBeLessThan(0.8 * BUCKET);
    });
  },
);
