import { describe, expect, it } from 'vitest';
import { createExposition } from '../../src/metrics/exposition.ts';
import {
  counter,
  createHistogram,
  type Family,
  gauge,
  histogram,
  histogramSamples,
  info,
  observeValue,
  type Sample,
  type Source,
} from '../../src/metrics/family.ts';
import { createProcessMetrics } from '../../src/metrics/process.ts';
import { ucumUnitOf } from '../../src/push/otlp-metrics.ts';
import { createQueue } from '../../src/push/queue.ts';
import { type PushedSeries, takeSnapshot } from '../../src/push/snapshot.ts';
import { decodeMetrics, linesOf, type ReceivedPoint } from '../support/otlp-metrics.ts';
import { parseExposition } from '../support/parse-exposition.ts';

const NOW = 1_790_000_000_123;
const BOUNDS = [0.5, 1, 300];

const families = {
  size: gauge('x_size_bytes', 'Size "as\\read".', ['place']),
  share: gauge('x_share_ratio', 'Share.'),
  done: counter('x_done_total', 'Done.', ['place', 'how']),
  took: counter('x_took_seconds_total', 'Time.'),
  wait: histogram('x_wait_seconds', 'Wait.', ['place']),
  account: info('x_account_info', 'Account.', ['plan']),
} as const;

/** Creates a source whose samples are read from `samples`. */
function sourceOf(
  account: string | undefined,
  all: readonly Family[],
  samples: () => Readonly<Record<string, readonly Sample[]>>,
): Source {
  return {
    ...(account === undefined ? {} : { account }),
    families: all,
    revision: () => ({}),
    samples: () => new Map(Object.entries(samples())),
  };
}

async function push(sources: readonly Source[], pushed: PushedSeries = new Map()) {
  const packets: { points: ReceivedPoint[]; items: number; bytes: number }[] = [];
  const failed: unknown[] = [];
  const origin = { version: '1.2.3', resource: { 'service.name': 'delivery-watch', 'service.instance.id': 'h:1' } };
  const clock = { now: () => NOW };
  const onError = (_: Source, error: unknown) => void failed.push(error);
  for await (const { body, items } of takeSnapshot(sources, pushed, { origin, clock, failed: onError })) {
    packets.push({ points: decodeMetrics(Buffer.from(body)), items, bytes: body.length });
  }
  return { packets, points: packets.flatMap(({ points }) => points), failed, pushed };
}

/** Returns the samples of a scrape in the format of `linesOf`. */
function scraped(sources: readonly Source[]): Map<string, number> {
  const text = createExposition(sources).render({ scope: 'everything', format: 'text', gzip: false }).toString();
  const bound = (le: string) => String(Number(le.replace('Inf', 'Infinity')));
  return new Map(
    parseExposition(text, 'text').flatMap(({ samples }) =>
      samples.map(({ name, labels, value }): [string, number] => {
        const filled = Object.entries(labels).filter(([, text]) => text !== '');
        const sorted = filled.map(([label, text]) => [label, label === 'le' ? bound(text) : text]).sort();
        return [`${name}${JSON.stringify(sorted)}`, value];
      }),
    ),
  );
}

function threeKinds(): Source[] {
  const state = createHistogram(BOUNDS);
  for (const value of [0.1, 0.5, 7, 301]) {
    observeValue(state, BOUNDS, value, value === 7 ? { traceId: 'ab'.repeat(16), time: NOW - 5 } : undefined);
  }
  return ['a', 'b'].map(account =>
    sourceOf(account, Object.values(families), () => ({
      x_size_bytes: [
        { labels: { place: 'Ä"\n\\' }, value: 1.5 },
        { labels: { place: undefined }, value: -7 },
        { labels: { place: 'q' }, value: Number.POSITIVE_INFINITY },
      ],
      x_share_ratio: [{ labels: {}, value: 0.25 }],
      x_done_total: [{ labels: { place: 'p', how: 'ok' }, value: 2 ** 53 - 1, since: NOW - 1000 }],
      x_took_seconds_total: [{ labels: {}, value: 0.1 }],
      x_wait_seconds: histogramSamples({ place: 'p' }, BOUNDS, state, NOW - 60_000),
      x_account_info: [{ labels: { plan: 'fixed' }, value: 1 }],
    })),
  );
}

describe('pushed snapshots', () => {
  it('a pushed snapshot contains every series of a scrape at the same instant with the same value', async () => {
    const process = createProcessMetrics({ version: '1', configHash: 'h', configLoadedAt: 0, endpoints: ['dlq'] });
    process.requestSeconds.observe({ endpoint: 'dlq' }, 0.07);
    await process.refresh();
    const sources = [...threeKinds().slice(0, 1), process.source];
    const { points, failed } = await push(sources);
    expect(failed).toEqual([]);
    expect(Object.fromEntries(linesOf(points))).toEqual(Object.fromEntries(scraped(sources)));
    expect(points.length).toBeGreaterThan(40);
    expect(new Set(points.map(({ time }) => time))).toEqual(new Set([NOW]));
  });

  it('a pushed snapshot contains the type, unit, description, start time, exemplars and account', async () => {
    const { points } = await push(threeKinds());
    const of = (name: string) => points.find(point => point.name === name && point.labels.account === 'b');
    const resource = { 'service.name': 'delivery-watch', 'service.instance.id': 'h:1' };
    expect(of('x_done_total')).toMatchObject({ type: 'counter', unit: '', description: 'Done.', since: NOW - 1000 });
    expect(of('x_took_seconds_total')).toMatchObject({ type: 'counter', unit: 's', since: undefined, resource });
    expect(of('x_size_bytes')).toMatchObject({ type: 'gauge', unit: 'By', description: 'Size "as\\read".' });
    expect(of('x_share_ratio')).toMatchObject({ type: 'gauge', unit: '1' });
    expect(of('x_account_info')).toMatchObject({ type: 'sum', unit: '', labels: { account: 'b', plan: 'fixed' } });
    expect(of('x_wait_seconds')).toMatchObject({
      type: 'histogram',
      unit: 's',
      since: NOW - 60_000,
      labels: { account: 'b', place: 'p' },
      bounds: BOUNDS,
      counts: [2, 0, 1, 1],
      sum: 308.6,
      exemplars: [{ traceId: 'ab'.repeat(16), value: 7, time: NOW - 5 }],
    });
    expect(ucumUnitOf('delivery_watch_api_budget_wait_seconds_total')).toBe('s');
  });

  it('a pushed snapshot marks an ended series once; ended histograms keep their bounds', async () => {
    const [source] = threeKinds();
    const everything = await push(source ? [source] : []);
    const { points, pushed } = await push([], everything.pushed);
    expect(points.map(({ name, labels, value }) => ({ name, labels, value }))).toEqual(
      everything.points.map(({ name, labels }) => ({ name, labels, value: undefined })),
    );
    expect(points.find(({ name }) => name === 'x_wait_seconds')).toMatchObject({
      bounds: BOUNDS,
      counts: [0, 0, 0, 0],
    });
    expect((await push([], pushed)).points).toEqual([]);
    expect((await push(source ? [source] : [], pushed)).points).toEqual(everything.points);
  });

  it('a pushed snapshot does not end a series that moved to another source', async () => {
    const series = (places: readonly string[]) => () => ({
      x_size_bytes: places.map(place => ({ labels: { place }, value: 1 })),
    });
    const of = (places: readonly string[]) => sourceOf('a', [families.size], series(places));
    const { pushed } = await push([of(['p', 'q']), of(['r'])]);
    const { points } = await push([of(['q']), of(['p'])], pushed);
    expect(points.map(({ labels: { place }, value }) => [place, value])).toEqual([
      ['q', 1],
      ['p', 1],
      ['r', undefined],
    ]);
  });

  it('a pushed snapshot ends removed series even if the previous push was interrupted', async () => {
    const of = (places: readonly string[]) =>
      sourceOf('a', [families.size], () => ({ x_size_bytes: places.map(place => ({ labels: { place }, value: 1 })) }));
    const { pushed } = await push([of(['p', 'q'])]);
    const many = of(['p', 'q', ...Array.from({ length: 6000 }, (_, index) => String(index))]);
    const few = of(['q']);
    const deps = {
      origin: { version: '1', resource: {} },
      clock: { now: () => NOW },
      failed: () => undefined,
    };
    for (const sources of [[many], [few]]) for await (const _ of takeSnapshot(sources, pushed, deps)) break;
    const { points } = await push([few], pushed);
    expect(points.map(({ labels: { place }, value }) => [place, value])).toEqual([
      ['q', 1],
      ['p', undefined],
    ]);
  });

  it("a pushed snapshot contains every series despite times outside OTLP's range, lone surrogates, NUL and a megabyte of text", async () => {
    const state = createHistogram(BOUNDS);
    observeValue(state, BOUNDS, 7, { traceId: 'ab'.repeat(16), time: 8.64e15 });
    const long = 'x'.repeat(1_000_000);
    const { points, failed } = await push([
      sourceOf('a', Object.values(families), () => ({
        x_size_bytes: ['\ud800', '\udfff', '\0', long].map(place => ({ labels: { place }, value: 1 })),
        x_wait_seconds: histogramSamples({ place: 'p' }, BOUNDS, state),
        x_account_info: [{ labels: { plan: 'fixed' }, value: 1 }],
      })),
    ]);
    expect(failed).toEqual([]);
    expect(points.map(({ name, labels }) => labels.place ?? name)).toEqual([
      '\ufffd',
      '\0',
      long,
      'p',
      'x_account_info',
    ]);
    expect(points.find(({ name }) => name === 'x_wait_seconds')?.exemplars).toMatchObject([{ value: 7, time: 0 }]);
  });

  it('a pushed snapshot omits a source that throws, and ends its earlier series', async () => {
    const good = sourceOf('good', [families.share], () => ({ x_share_ratio: [{ labels: {}, value: 1 }] }));
    let isBroken = false;
    const bad = sourceOf('bad', [families.share], () => {
      if (isBroken) throw new Error('bug');
      return { x_share_ratio: [{ labels: {}, value: 2 }] };
    });
    const { pushed } = await push([bad, good]);
    isBroken = true;
    const { points, failed } = await push([bad, good], pushed);
    expect(points.map(({ labels: { account }, value }) => [account, value])).toEqual([
      ['good', 1],
      ['bad', undefined],
    ]);
    expect(failed).toHaveLength(1);
  });
});

it('a large snapshot is split into requests below 1 MiB and queued up to a size limit, and taking it yields to the event loop', async () => {
  const place = (index: number) => `https://host-${index}.example/${'x'.repeat(40)}`;
  const samples = Array.from({ length: 100_000 }, (_, index) => ({ labels: { place: place(index) }, value: index }));
  const source = sourceOf('a', [families.size], () => ({ x_size_bytes: samples }));
  const { cpu, longest, turns, packets, items } = await measured(async () => {
    const sizes: number[] = [];
    let items = 0;
    const deps = {
      origin: { version: '1', resource: {} },
      clock: { now: () => NOW },
      failed: () => undefined,
    };
    for await (const packet of takeSnapshot([source], new Map(), deps)) {
      sizes.push(packet.body.length);
      items += packet.items;
    }
    return { packets: sizes, items };
  });
  expect(items).toBe(100_000);
  expect(packets).toHaveLength(20);
  expect(Math.max(...packets)).toBeLessThan(2 ** 20);
  process.stdout.write(
    `push of 100,000 series: ${cpu} ms of processor time in ${turns} turns, longest ${longest} ms\n`,
  );
  expect(turns).toBeGreaterThan(15);

  const dropped: number[] = [];
  const queue = createQueue({ maxBytes: 2 ** 20, dropped: count => void dropped.push(count) });
  for (const size of packets) queue.add({ body: new Uint8Array(size), items: 5000 });
  expect(queue.bytes).toBeLessThanOrEqual(2 ** 20);
  expect(dropped.length).toBeGreaterThan(10);
});

/** Runs `work` and returns its result with the number of event loop turns and their CPU time (ms). */
async function measured<T>(work: () => Promise<T>) {
  let [turns, longest] = [0, 0];
  const spent = (since: NodeJS.CpuUsage) => process.cpuUsage(since).user / 1000;
  const start = process.cpuUsage();
  let last = process.cpuUsage();
  let isOver = false;
  const tick = () => {
    turns += 1;
    longest = Math.max(longest, spent(last));
    last = process.cpuUsage();
    if (!isOver) setImmediate(tick);
  };
  setImmediate(tick);
  const result = await work();
  isOver = true;
  return { ...result, cpu: Math.round(spent(start)), longest: Math.round(longest), turns };
}
