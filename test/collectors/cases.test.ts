import { globSync, readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { collectorSource } from '../../src/collectors/collector.ts';
import {
  accountRounds,
  type Collector,
  collectOptions,
  collectors,
  createAccountPlan,
  createCollectors,
  dataSources,
} from '../../src/collectors/index.ts';
import { systemClock } from '../../src/kit/clock.ts';
import { Secret } from '../../src/kit/secret.ts';
import { createExposition } from '../../src/metrics/exposition.ts';
import { afterThisTest, createTestClient } from '../support/client.ts';
import { collectOnly } from '../support/collect.ts';
import { json, startHttpService } from '../support/http-service.ts';

/** Input of a test case. The .prom file with the same name contains the expected output. */
interface Case {
  readonly now: string;
  /** The collector's section of the configuration; for `account`, the configured limits. */
  readonly options: object;
  /** Round that runs. Default: the collector's first round. */
  readonly round?: string;
  /** Rows that an earlier process committed. */
  readonly stored?: Readonly<Record<string, string>>;
  /** The account's record, as stored by a token reset. */
  readonly recorded?: object;
  readonly answers: readonly (readonly [request: string, body: unknown])[];
  /** Rows that the round commits. Default: none. `elsewhere`: other tests check them. */
  readonly changes?: readonly object[] | 'elsewhere';
}

const fileName = (name: string) => name.replaceAll('_', '-');

/** Creates one collector, with all others disabled. */
function create(name: string, options: object, recorded: object | undefined): Collector {
  const { configKey: key, isOptional } = collectors.find(kind => kind.name === name) ?? {};
  if (key === undefined)
    return createAccountPlan({
      recorded: async () => recorded,
      configured: () => options,
      usage: { every: 1_800_000 },
    });
  if (!(key in collectOptions.shape))
    throw new Error(`collectOptions in src/collectors/index.ts has no section ${key}`);
  const [collector] = createCollectors(
    collectOptions.parse({ ...collectOnly(), [key]: { ...options, enabled: isOptional ? 'auto' : true } }),
    {},
  );
  if (!collector) throw new Error(`no collector ${name}`);
  return collector;
}

async function collect(name: string, { now, options, stored = {}, answers, recorded, ...given }: Case) {
  const collector = create(name, options, recorded);
  const left = [...answers];
  const service = await startHttpService((request, response) => {
    // Requests may run concurrently, so their order varies.
    const requested = `${request.method} ${request.url}`;
    const at = left.findIndex(([expected]) => expected === requested);
    const [, body] = at === -1 ? [] : (left.splice(at, 1)[0] ?? []);
    if (at === -1) json(response, { error: `unexpected: ${requested}` }, 400);
    else json(response, body);
  });
  afterThisTest(() => service.close());
  const api = createTestClient(service.url, {
    clock: { ...systemClock, now: () => Date.parse(now) },
    management: {
      baseUrl: service.url,
      username: 'ops@example.com',
      password: async () => new Secret('password'),
      path: '/v2/qstash/users',
      region: null,
    },
  }).reader;
  const round = given.round ?? Object.keys(collector.rounds)[0] ?? '';
  const signal = new AbortController().signal;
  const changes: object[] = [];
  let memory = collector.restore(new Map(Object.entries(stored)));
  let walk: unknown;
  let facts: unknown;
  do {
    const step = await collector.observe({ api, round, now: Date.parse(now), memory, walk, signal });
    const folded = step.fold(memory);
    changes.push(...folded.changes);
    ({ memory, facts } = folded);
    walk = step.more;
  } while (walk !== undefined);
  expect(left, 'requests that were not made').toEqual([]);
  const source = collectorSource('acme', collector, () => ({ now: facts, committed: facts }));
  const exposition = createExposition([source]);
  const body = await exposition.render({ scope: 'everything', format: 'text', gzip: false });
  return { text: body.toString(), changes };
}

describe.each(dataSources.map(({ name, families }) => [name, families] as const))('%s', (kind, families) => {
  const folder = `test/collectors/${fileName(kind)}`;
  const cases = globSync(`${folder}/*.json`).sort();

  it('each collector has at least three test cases', () =>
    expect(cases.length, `cases in ${folder}/*.json`).toBeGreaterThanOrEqual(3));

  it.each(cases)('the collector’s exposition matches the golden file of %s', async path => {
    const given = JSON.parse(readFileSync(path, 'utf8')) as Case;
    const { text, changes } = await collect(kind, given);
    await expect(text).toMatchFileSnapshot(`../../${path.replace(/json$/, 'prom')}`);
    if (given.changes !== 'elsewhere') expect(changes).toEqual(given.changes ?? []);
  });

  it('every metric name has a known prefix', () => {
    for (const { name } of Object.values(families)) {
      expect(name).toMatch(
        new RegExp(
          `^delivery_(${kind}(_|$)|events?_|messages?_|attempt|oldest_in_flight|schedule_|failure_callbacks_|parallelism_|workflow_|queue_|series_dropped)`,
        ),
      );
    }
  });
});

it('the table of collectors lists every collector', () => {
  const folders = readdirSync('src/collectors', { withFileTypes: true }).filter(each => each.isDirectory());
  expect(folders.map(({ name }) => name).sort(), 'folders in src/collectors, and `collectors` in its index.ts').toEqual(
    collectors.map(({ name }) => fileName(name)).sort(),
  );
  expect(Object.keys(collectOptions.shape), 'sections of collectOptions in src/collectors/index.ts').toEqual(
    expect.arrayContaining(collectors.map(({ configKey }) => configKey)),
  );
});

it('no two collectors have a round of the same name, because alert rules select rounds by name', () => {
  const rounds = [...accountRounds(collectOptions.parse({}))].flatMap(([, rounds]) => Object.keys(rounds));
  expect(rounds).toEqual([...new Set(rounds)]);
});
