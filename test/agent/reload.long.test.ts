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
/** Number of reloads after which all one-time allocations have been made. */
const WARM = 40;

type Series = ReadonlyMap<string, number>;

/** Returns the values of counters and histograms by series. */
function risingIn(text: string): Series {
  const families = parseExposition(text, 'text').filter(({ type }) => type === 'counter' || type === 'histogram');
  return new Map(
    families.flatMap(({ samples }) =>
      samples.map(({ name, labels, value }) => [`${name}${JSON.stringify(labels)}`, value] as const),
    ),
  );
}

it(`serves every scrape, resets no counter and leaks no handles during ${RELOADS} consecutive reloads`, async () => {
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
      account('changed', { labels: { team: 'x' }, region: 'x' }),
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
  // Rename the file into place: the file watch may start a reload at any time and could read a partially written file.
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
      // Counters of an account restart if it is removed and added again between two scrapes.
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
    // The file watch may trigger an additional reload.
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
  // Connections may still be open.
  await eventually(async () => expect((await usage()).descriptors).toBeLessThanOrEqual(warm.descriptors + 5));
  expect(last.timers).toBeLessThanOrEqual(warm.timers + 10);
  // RSS is in kB. Retaining earlier configurations would add more than 1,000 kB per reload.
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
