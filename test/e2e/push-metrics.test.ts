import { expect, it } from 'vitest';
import { startAgent, unlimited } from '../support/agent.ts';
import { afterThisTest } from '../support/client.ts';
import { emulate } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { findVictoriaMetrics } from '../support/newer-packages.ts';
import { asVictoriaMetrics, freePort, startPrometheus } from '../support/prometheus.ts';

const program = findVictoriaMetrics();

/** Metrics that change even while the emulator's clock is frozen. */
const MOVING = /^(process_|nodejs_|delivery_watch_|delivery_collector_|delivery_event_log_|delivery_events_recent)/;
/** Series added by a scraper or for a pushed resource. */
const ADDED = /^(up$|scrape_|target_info)/;
const ORIGIN: ReadonlySet<string> = new Set(['job', 'instance', 'scope_name', 'scope_version', '__name__']);

type Series = Map<string, number>;

it.skipIf(program === undefined)(
  'a database contains the same series from pushes as from scrapes, and removed series end immediately',
  async () => {
    // The clock is frozen, so that the expected numbers do not change during the comparison.
    const emulator = await emulate({ speed: 0, seed: 11 });
    emulator.state.setWaitlist('removed key', 42);
    const port = await freePort();
    const database = await startPrometheus({
      ...asVictoriaMetrics(program as string),
      scrapeConfigs: [{ job_name: 'scraped', static_configs: [{ targets: [`127.0.0.1:${port}`] }] }],
    });
    afterThisTest(() => database.stop());
    const agent = await startAgent(
      {
        server: { listen: `127.0.0.1:${port}` },
        accounts: [unlimited('a', emulator.url)],
        collect: {
          flowControl: { every: '300ms' },
          dlq: { every: '1s', filters: [{ name: 'status-500', match: { responseStatus: 500 } }] },
          events: { every: '500ms', destination: 'host', destinationHistograms: true },
        },
        push: { metrics: { enabled: true, every: '1s', endpoint: `${database.url}/opentelemetry` } },
      },
      emulator.token,
    );

    /**
     * Returns series by name and labels, without labels of their origin. Bucket bounds become numbers, because they are `300`
     * when pushed and `300.0` when scraped.
     */
    async function seriesOf(selector: string): Promise<Series> {
      const found = await database.query(selector);
      return new Map(
        found
          .filter(({ metric: { __name__: name = '' } }) => !ADDED.test(name))
          .map(({ metric, value }): [string, number] => {
            const own = Object.entries(metric).filter(([label]) => !ORIGIN.has(label) && !label.startsWith('service'));
            const labels = own.map(([label, text]) => [
              label,
              label === 'le' ? String(Number(text.replace('Inf', 'Infinity'))) : text,
            ]);
            return [`${metric.__name__} ${JSON.stringify(labels.sort())}`, value];
          }),
      );
    }
    const stable = (series: Series) => [...series].filter(([name]) => !MOVING.test(name)).sort();

    await eventually(async () => {
      const [pushed, scraped] = [await seriesOf('{service_name="delivery-watch"}'), await seriesOf('{job="scraped"}')];
      expect([...pushed.keys()].sort()).toEqual([...scraped.keys()].sort());
      expect(stable(pushed)).toEqual(stable(scraped));
      expect(stable(pushed).length).toBeGreaterThan(100);
    });
    const isPresent = async () =>
      (await seriesOf('delivery_flow_control_waitlist_size{job!="scraped",flow_control_key="removed key"}')).size;
    expect(await isPresent()).toBe(1);
    emulator.state.setWaitlist('removed key', undefined);
    // The series ends long before the database would consider it stale.
    await eventually(async () => expect(await isPresent()).toBe(0));
    const { sum } = await agent.scrape();
    expect(sum('delivery_watch_push_items_total', { outcome: 'rejected' })).toBe(0);
    expect(sum('delivery_watch_push_requests_total', { outcome: 'accepted' })).toBeGreaterThan(0);
  },
);
