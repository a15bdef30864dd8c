import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { toDeliveryEvent } from '../../src/upstream/wire.ts';
import { unlimited } from '../support/agent.ts';
import { runCli } from '../support/cli.ts';
import { emulate } from '../support/emulate.ts';
import { newFolder } from '../support/folder.ts';
import { requireProgram, startPrometheus } from '../support/prometheus.ts';
import { run } from '../support/run.ts';

const MINUTE = 60_000;
/**
 * Numbers of failures in 15 minutes that are certainly above, or certainly not above, the recipe's threshold, regardless
 * of where windows start.
 */
const [MANY, FEW] = [25, 15];

function documentedRule(): string {
  const [, recipe = ''] = readFileSync('docs/backfill.md', 'utf8').split('## Try rules on the past');
  const [, rule = ''] = /```yaml\n([\s\S]*?)```/.exec(recipe) ?? [];
  return rule;
}

/** Starts Prometheus with a copy of these blocks and passes it to `use`. */
async function withBlocks<T>(blocks: string, use: (prometheus: Awaited<ReturnType<typeof startPrometheus>>) => T) {
  const prometheus = await startPrometheus({
    scrapeConfigs: [],
    prepare: async data => cpSync(blocks, data, { recursive: true }),
  });
  try {
    return await use(prometheus);
  } finally {
    await prometheus.stop();
  }
}

async function promtool(...args: string[]): Promise<void> {
  const { code, stdout, stderr } = await run('promtool', args, { PATH: process.env.PATH ?? '' });
  expect(code, stderr + stdout).toBe(0);
}

const hasPrometheus = requireProgram('promtool') && requireProgram('prometheus');

it.skipIf(!hasPrometheus)(
  'the documented recipe computes when an alert would have fired',
  { timeout: 60_000 },
  async () => {
    const emulator = await emulate({ scenario: 'dlq-growth', history: 60 * MINUTE, seed: 7 });
    const folder = newFolder();
    const file = (name: string) => join(folder, name);
    const accounts = [unlimited('production', emulator.url)];
    writeFileSync(file('past.yaml'), JSON.stringify({ store: { kind: 'memory' }, accounts }));
    writeFileSync(file('try.yaml'), documentedRule());
    const end = Math.floor(Date.now() / MINUTE) * MINUTE - 2 * MINUTE;
    const start = end - 55 * MINUTE;
    const filled = await runCli(
      ['backfill', '--config', file('past.yaml'), '--from', new Date(start).toISOString(), '--out', file('past.txt')],
      { DELIVERY_TOKEN: emulator.token },
    );
    expect(filled.code, filled.stderr).toBe(0);
    await promtool('tsdb', 'create-blocks-from', 'openmetrics', file('past.txt'), file('data'));
    await withBlocks(file('data'), async ({ url }) => {
      const range = ['--start', `${start / 1000}`, '--end', `${end / 1000}`];
      const into = ['--output-dir', file('data'), file('try.yaml')];
      await promtool('tsdb', 'create-blocks-from', 'rules', '--url', url, ...range, ...into);
    });

    const answer = await fetch(`${emulator.url}/v2/events?state=FAILED&count=1000`, {
      headers: { authorization: `Bearer ${emulator.token}` },
    });
    const { events } = (await answer.json()) as { events: object[] };
    const failed = events.flatMap(row => toDeliveryEvent(row) ?? []).map(({ time }) => time);
    const failures = (at: number) =>
      failed.filter(time => time > Math.max(start, at - 15 * MINUTE) && time <= at).length;
    const expected = Array.from({ length: 56 }, (_, minute) => start + minute * MINUTE).flatMap(at => {
      const lately = [5, 4, 3, 2, 1, 0].map(minutes => failures(at - minutes * MINUTE));
      if (Math.min(...lately) > MANY) return [{ at, isFiring: true }];
      return Math.min(...lately.slice(1)) <= FEW ? [{ at, isFiring: false }] : [];
    });
    expect(new Set(expected.map(({ isFiring }) => isFiring)).size).toBe(2);
    await withBlocks(file('data'), async ({ query }) => {
      for (const { at, isFiring } of expected) {
        const alerts = await query(`last_over_time(ALERTS{alertname="ManyFailures"}[59s] @ ${at / 1000})`);
        const wanted = { account: 'production', alertname: 'ManyFailures', alertstate: 'firing' };
        const found = alerts.map(({ metric: { __name__, ...labels }, value }) => ({ labels, value }));
        expect(found, new Date(at).toISOString()).toEqual(isFiring ? [{ labels: wanted, value: 1 }] : []);
      }
    });
  },
);
