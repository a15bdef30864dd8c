import { expect, it } from 'vitest';
import { planCosts } from '../../src/cli/plan.ts';
import { collectOnce } from '../../src/cli/snapshot.ts';
import { parseConfig } from '../../src/config/load.ts';
import { systemClock } from '../../src/kit/clock.ts';
import { json, serve } from '../support/http-service.ts';
import { parseExposition } from '../support/parse-exposition.ts';

const { signal } = new AbortController();
const deps = { env: {}, clock: systemClock, random: () => 0 };

/** Starts a service with one key and returns the configuration of an account that excludes these families. */
async function setUp(exclude: string[]) {
  const service = await serve((_, response) => json(response, [{ flowControlKey: 'k', waitListSize: 7 }]));
  const config = {
    log: { level: 'silent' },
    accounts: [{ name: 'a', baseUrl: service.url, token: 'x', collect: { families: { exclude } } }],
    collect: { dlq: { enabled: false }, events: { enabled: false } },
  };
  return parseConfig(JSON.stringify(config), 'x.yaml', {});
}

const once = async (exclude: string[]) =>
  collectOnce(await setUp(exclude), deps, { signal, onProgress: () => undefined });

it('omits excluded families from a Prometheus snapshot, but not from JSON', async () => {
  const families = (text: string) => parseExposition(text, 'text').map(({ name }) => name);
  const whole = await once([]);
  const { text, samples } = await once(['delivery_flow_control_wait*', 'delivery_watch_*']);
  expect(families(text)).toEqual(
    families(whole.text).filter(name => !/^delivery_(flow_control_wait|watch_)/.test(name)),
  );
  expect(families(whole.text)).toContain('delivery_flow_control_waitlist_size');
  expect(samples).toContainEqual({
    account: 'a',
    metric: 'delivery_flow_control_waitlist_size',
    labels: { flow_control_key: 'k' },
    value: 7,
  });
});

it('`plan` does not count series of excluded families', async () => {
  const seriesOf = async (exclude: string[]) => (await planCosts(await setUp(exclude), deps, signal))[0]?.series ?? 0;
  const whole = await seriesOf([]);
  expect(await seriesOf(['delivery_token_rejected', 'delivery_watch_api_budget_remaining'])).toBe(whole - 2);
});
