import { readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { startEmulator } from '../../src/emulator/server.ts';
import { createAgent, unlimited } from '../support/agent.ts';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { json, serve } from '../support/http-service.ts';
import { parseExposition } from '../support/parse-exposition.ts';

const RELOADS = 200;
/** After so many the process has made what it makes once. */
const WARM = 40;

type Series = ReadonlyMap<string, number>;

/** What only rises, by series. */
function risingIn(text: string): Series {
  const families = parseExposition(text, 'text').filter(({ type }) => type === 'counter' || type === 'histogram');
  return new Map(
    families.flatMap(({ samples }) =>
      samples.map(({ name, labels, value }) => [`${name}${JSON.stringify(labels)}`, value] as const),
    ),
  );
}

it(`${RELOADS} reloads in a row fail no scrape, take no counter back, and leave nothing open`, async () => {
  const emulator = await startEmulator({ scenario: 'steady', seed: 3 });
  afterThisTest(() => emulator.close());
  const hook = await serve((_request, response) => json(response, {}));
  const account = (name: string, more: object = {}) => ({ ...unlimited(name, emulator.url), ...more });
  const above = (name: string, value: number) => ({
    name,
    when: { above: { metric: 'delivery_dlq_messages', value } },
  });
  const webhook = (name: string, path: string) => ({ name, webhook: { url: `${hook.url}/${path}`, groupWait: '1s' } });
  const common = { collect: { flowControl: { every: '200ms' }, dlq: { every: '300ms' }, events: { every: '300ms' } } };
  const alerts = (rules: object[], notifiers: object[]) => ({ enabled: true, evaluateEvery: '1s', rules, notifiers });
  const first = {
    ...common,
    accounts: [account('kept'), account('changed'), account('gone')],
    alerts: alerts(
      [above('Kept', 0), above('Changed', 0), above('Gone', 0)],
      [webhook('kept', 'a'), webhook('gone', 'b')],
    ),
  };
  const second = {
    ...common,
    accounts: [
      account('kept'),
      account('changed', { labels: { team: 'x' } }),
      account('added', { upstream: { connectTimeout: '4s' } }),
    ],
    alerts: alerts(
      [above('Kept', 0), above('Changed', 1), above('Added', 0)],
      [webhook('kept', 'a'), webhook('added', 'c')],
    ),
  };
  const agent = createAgent(first, { DELIVERY_TOKEN: emulator.token });
  const own = JSON.parse(readFileSync(agent.configFile, 'utf8'));
  const url = await agent.start();
  const { pid } = agent.process;
  // Renamed into place: a reload that the watch starts at this moment would read half a file.
  const use = (config: object) => {
    writeFileSync(`${agent.configFile}.new`, JSON.stringify({ ...own, ...config }));
    renameSync(`${agent.configFile}.new`, agent.configFile);
  };

  let scrapes = 0;
  let isOver = false;
  const fallen: string[] = [];
  let before: Series = new Map();
  const scraping = (async () => {
    while (!isOver) {
      const response = await fetch(`${url}/metrics`);
      if (response.status !== 200) throw new Error(`a scrape failed: ${response.status}`);
      const now = risingIn(await response.text());
      // What is gone and comes back between two scrapes begins again.
      const isKept = (series: string) => /"account":"(kept|changed)"/.test(series);
      for (const [series, value] of before) {
        if (isKept(series) && !((now.get(series) ?? -1) >= value)) fallen.push(series);
      }
      before = now;
      scrapes += 1;
      await sleep(20);
    }
  })();

  const reloads = () => (agent.process.stderr().match(/configuration reloaded/g) ?? []).length;
  async function reload(number: number): Promise<void> {
    const before = reloads();
    use(number % 2 === 0 ? second : first);
    agent.process.kill('SIGHUP');
    // The files are looked at, too: there may be one more.
    await eventually(() => expect(reloads()).toBeGreaterThan(before));
  }
  async function usage() {
    const text = await (await fetch(`${url}/metrics/agent`)).text();
    const timers = Number(/nodejs_active_resources{type="Timeout"} (\d+)/.exec(text)?.[1]);
    const rss = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
    return { descriptors: readdirSync(`/proc/${pid}/fd`).length, timers, rss };
  }

  for (let number = 0; number < WARM; number += 1) await reload(number);
  const warm = await usage();
  const half = (RELOADS - WARM) / 2;
  for (let number = WARM; number < WARM + half; number += 1) await reload(number);
  const middle = await usage();
  for (let number = WARM + half; number < RELOADS; number += 1) await reload(number);
  const last = await usage();
  isOver = true;
  await scraping;
  expect(fallen).toEqual([]);
  expect(scrapes).toBeGreaterThan(RELOADS);
  // A connection or two may be open at one moment and not at the other.
  expect(last.descriptors).toBeLessThanOrEqual(warm.descriptors + 5);
  expect(last.timers).toBeLessThanOrEqual(warm.timers + 10);
  // Kilobytes. Of one that holds on to what was, it would be more than 1,000 a reload.
  expect(last.rss - middle.rss).toBeLessThan(half * 500);
  expect(
    agent.process
      .stderr()
      .split('\n')
      .filter(line => /MaxListeners|"level":"error"/.test(line)),
  ).toEqual([]);
  agent.process.kill('SIGTERM');
  expect(await agent.process.ended).toBe(0);
});
