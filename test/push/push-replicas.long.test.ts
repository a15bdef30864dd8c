import { gunzipSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { NO_ACCOUNT } from '../../src/store/store.ts';
import { createChance } from '../support/chance.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { serve } from '../support/http-service.ts';
import { decodeMetrics, type ReceivedPoint } from '../support/otlp-metrics.ts';
import { freePort } from '../support/prometheus.ts';
import { createReplicas } from '../support/replicas.ts';
import { traffic } from '../support/traffic.ts';

const IDS = ['one', 'two'] as const;
type Id = (typeof IDS)[number];

/** Families with stored counters, which continue after a handover. Other counters restart when a replica opens the account. */
const STORED = /^delivery_(events|messages_finished|message_time|message_queue|message_attempts|attempt|dlq|event_log)/;

const isRising = ({ type }: ReceivedPoint) => type === 'counter' || type === 'histogram';
const keyOf = ({ name, labels }: ReceivedPoint) => `${name}${JSON.stringify(Object.entries(labels).sort())}`;

/** Starts two replicas that push to one receiver and identifies them by their instance label. */
async function setUp() {
  const chance = createChance();
  const points: ReceivedPoint[] = [];
  const receiver = await serve(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    points.push(...decodeMetrics(gunzipSync(Buffer.concat(chunks))));
    response.end();
  });
  const emulator = await emulateEmpty();
  const start = Date.now();
  const events = traffic(chance, { messages: 400, span: 15_000, start, prefix: 'msg' });
  emulator.state.addEvents(events.map(({ status, ...event }) => ({ ...event, responseStatus: status })) as never);
  const { database, start: startReplica } = createReplicas();
  for (const name of [NO_ACCOUNT, 'a', 'b']) database.place(name, 'one');
  const ids = new Map<string, Id>();
  for (const id of IDS) {
    const port = await freePort();
    await startReplica(id, {
      server: { listen: `127.0.0.1:${port}` },
      accounts: ['a', 'b'].map(name => ({
        name,
        baseUrl: emulator.url,
        token: emulator.token,
        budget: { requestsPerSecond: 2000, burst: 2000, requestsPerDay: 10_000_000 },
      })),
      collect: { dlq: { every: '300ms' }, events: { every: '100ms', overlap: '1s' } },
      push: { metrics: { enabled: true, every: '200ms', endpoint: receiver.url } },
    });
    ids.set(String(port), id);
  }
  const idOf = ({ resource }: ReceivedPoint) => ids.get(resource['service.instance.id']?.split(':').at(-1) ?? '');
  return {
    database,
    /** All points of an account in order of arrival, except `delivery_watch_leader`, which every replica exposes. */
    of: (account: string) =>
      points
        .filter(({ name, labels }) => labels.account === account && name !== 'delivery_watch_leader')
        .map(point => ({ ...point, id: idOf(point) })),
  };
}

type OfReplica = ReceivedPoint & { readonly id: Id | undefined };

const lastOfEach = (points: readonly OfReplica[], id: Id) =>
  new Map(points.filter(each => each.id === id).map(point => [keyOf(point), point]));

/** Expects current series of the account from `holder`, and only ended series from the other replica. */
function expectHeldBy(points: readonly OfReplica[], holder: Id): void {
  const values = (id: Id) => [...lastOfEach(points, id).values()].map(({ value }) => value);
  expect(values(holder).filter(value => value !== undefined).length).toBeGreaterThan(80);
  for (const id of IDS) if (id !== holder) expect(values(id).filter(value => value !== undefined)).toEqual([]);
}

/** Returns violations of counter rules, point by point. `seriesOf` returns the series of a point. */
function violationsOf(points: readonly OfReplica[], seriesOf: (point: OfReplica) => string): string[] {
  const violations: string[] = [];
  const last = new Map<string, OfReplica>();
  for (const point of points) {
    const { name, value, since, time } = point;
    if (!isRising(point) || value === undefined) continue;
    const series = seriesOf(point);
    const before = last.get(series);
    last.set(series, point);
    if (!before) continue;
    const isReset = since !== before.since && (since ?? 0) > before.time;
    // Before the first walk, DLQ counters have no start time.
    if (STORED.test(name) && before.since !== undefined && since !== before.since) {
      violations.push(`${series} started at ${before.since}, then at ${since}`);
    }
    if (value < (before.value ?? 0) && !isReset) {
      violations.push(`${series} decreased from ${before.value} at ${before.time} to ${value} at ${time}`);
    }
  }
  return violations;
}

/** Checks all points of each replica in order of arrival, and stored counters across replicas in order of time. */
const allViolationsOf = (points: readonly OfReplica[]) => [
  ...violationsOf(points, point => `${point.id} ${keyOf(point)}`),
  ...violationsOf(
    points.filter(({ name }) => STORED.test(name)).sort((one, other) => one.time - other.time),
    keyOf,
  ),
];

it('after a handover, the old holder ends the pushed series and the new one continues them', async () => {
  const { database, of } = await setUp();
  const moves = ['one', 'two', 'one', 'two', 'one'] as const;
  for (const holder of moves) {
    database.place('a', holder);
    await eventually(() => expectHeldBy(of('a'), holder));
  }
  const points = of('a');
  // The replicas never push the account at the same time.
  const holders = points
    .filter(({ name, value }) => name === 'delivery_up' && value !== undefined)
    .sort((one, other) => one.time - other.time)
    .map(({ id }) => id);
  expect(holders.filter((id, index) => id !== holders[index - 1])).toEqual([...moves]);
  expect(allViolationsOf(points)).toEqual([]);
  expect(points.some(({ name, value }) => name === 'delivery_events_total' && (value ?? 0) > 100)).toBe(true);

  // Without an orderly handover, the old holder pushes the account until it detects that its lease is lost.
  database.place('a', 'two');
  database.expire('a');
  await eventually(() => expectHeldBy(of('a'), 'two'));

  const stayed = of('b');
  expect(new Set(stayed.map(({ id }) => id))).toEqual(new Set(['one']));
  expect(allViolationsOf(stayed)).toEqual([]);
  expect(stayed.some(({ name, value }) => name === 'delivery_events_total' && value === undefined)).toBe(false);
});
