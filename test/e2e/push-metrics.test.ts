import { expect, it } from 'vitest';
import { startAgent, unlimited } from '../support/agent.ts';
import { afterThisTest } from '../support/client.ts';
import { emulate } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { findVictoriaMetrics } from '../support/newer-prometheus.ts';
import { asVictoriaMetrics, freePort, startPrometheus } from '../support/prometheus.ts';

const program = findVictoriaMetrics();

/** What the agent says of itself moves from one second to the next. */
const MOVING = /^(process_|nodejs_|delivery_watch_|delivery_collector_|delivery_event_log_|delivery_events_recent)/;
/** What a scraper adds, and what is said of a pushed resource. */
const ADDED = /^(up$|scrape_|target_info)/;
const ORIGIN: ReadonlySet<string> = new Set(['job', 'instance', 'scope_name', 'scope_version', '__name__']);

type Series = Map<string, number>;

it.skipIf(program === undefined)(
  'a real database has of a push what it has of a scrape, and ends what has gone',
  async () => {
    // Frozen, so that truth stands still while it is compared.
    const emulator = await emulate({ speed: 0, seed: 11 });
    emulator.state.setWaitlist('a key that goes', 42);
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

    /** Series by name and labels, without where they came from, and bounds as numbers: a pushed one is `300`, a scraped one `300.0`. */
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
    const still = (series: Series) => [...series].filter(([name]) => !MOVING.test(name)).sort();

    await eventually(async () => {
      const [pushed, scraped] = [await seriesOf('{service_name="delivery-watch"}'), await seriesOf('{job="scraped"}')];
      expect([...pushed.keys()].sort()).toEqual([...scraped.keys()].sort());
      expect(still(pushed)).toEqual(still(scraped));
      expect(still(pushed).length).toBeGreaterThan(100);
    });
    const isThere = async () =>
      (await seriesOf('delivery_flow_control_waitlist_size{job!="scraped",flow_control_key="a key that goes"}')).size;
    expect(await isThere()).toBe(1);
    emulator.state.setWaitlist('a key that goes', undefined);
    // Long before the database forgets what is not told any more.
    await eventually(async () => expect(await isThere()).toBe(0));
    const { sum } = await agent.scrape();
    expect(sum('delivery_watch_push_items_total', { outcome: 'rejected' })).toBe(0);
    expect(sum('delivery_watch_push_requests_total', { outcome: 'accepted' })).toBeGreaterThan(0);
  },
);
