import { expect, it } from 'vitest';
import { scrape, startAgent, unlimited } from '../support/agent.ts';
import { afterThisTest } from '../support/client.ts';
import { emulate } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { findNewerPrometheus, otlpFlag } from '../support/newer-prometheus.ts';
import { freePort, startPrometheus } from '../support/prometheus.ts';

const program = findNewerPrometheus();

/** What the agent says of itself moves from one second to the next. */
const MOVING = /^(process_|nodejs_|delivery_watch_|delivery_collector_|delivery_(account|event_log)_|target_info)/;

interface Series {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Series by name and labels, without where they came from, and bounds as numbers: a pushed one is `300`, a scraped one `300.0`. */
const byLabels = (all: readonly Series[]) =>
  new Map(
    all.map(({ metric: { job: _job, instance: _instance, le, ...labels }, value }) => [
      JSON.stringify(
        Object.entries({ ...labels, ...(le ? { le: Number(le.replace('Inf', 'Infinity')) } : {}) }).sort(),
      ),
      value,
    ]),
  );

it.skipIf(program === undefined)(
  'a real Prometheus has of a push what it has of a scrape, and ends what has gone',
  async () => {
    // Frozen, so that truth stands still while it is compared.
    const emulator = await emulate({ speed: 0, seed: 11 });
    emulator.state.setWaitlist('a key that goes', 42);
    const port = await freePort();
    const prometheus = await startPrometheus({
      program: program as string,
      flags: [otlpFlag(program as string)],
      scrapeConfigs: [{ job_name: 'scraped', static_configs: [{ targets: [`127.0.0.1:${port}`] }] }],
    });
    afterThisTest(() => prometheus.stop());
    const { url } = await startAgent(
      {
        server: { listen: `127.0.0.1:${port}` },
        accounts: [unlimited('a', emulator.url)],
        collect: {
          flowControl: { every: '300ms' },
          dlq: { every: '1s', filters: [{ name: 'status-500', match: { responseStatus: 500 } }] },
          events: { every: '500ms', destination: 'host', destinationHistograms: true },
        },
        push: { metrics: { enabled: true, every: '1s', endpoint: `${prometheus.url}/api/v1/otlp` } },
      },
      emulator.token,
    );
    const of = async (job: string) =>
      byLabels(
        (await prometheus.query(`{job="${job}"}`)).filter(
          ({ metric: { __name__: name = '' } }) => !/^(up|scrape_|target_info)/.test(name),
        ),
      );
    const still = (series: Awaited<ReturnType<typeof of>>) =>
      [...series]
        .filter(([labels]) => !MOVING.test(new Map<string, string>(JSON.parse(labels)).get('__name__') ?? ''))
        .sort();

    await eventually(async () => {
      const [pushed, scraped] = [await of('delivery-watch'), await of('scraped')];
      expect([...pushed.keys()].sort()).toEqual([...scraped.keys()].sort());
      expect(still(pushed)).toEqual(still(scraped));
      expect(still(pushed).length).toBeGreaterThan(100);
    });
    const isThere = async () =>
      (
        await prometheus.query(
          'delivery_flow_control_waitlist_size{job="delivery-watch",flow_control_key="a key that goes"}',
        )
      ).length;
    expect(await isThere()).toBe(1);
    emulator.state.setWaitlist('a key that goes', undefined);
    // Long before the five minutes after which Prometheus forgets what is not told any more.
    await eventually(async () => expect(await isThere()).toBe(0));
    const { sum } = await scrape(url);
    expect(sum('delivery_watch_push_items_total', { signal: 'metrics', outcome: 'rejected' })).toBe(0);
    expect(sum('delivery_watch_push_requests_total', { outcome: 'accepted' })).toBeGreaterThan(0);
  },
);
