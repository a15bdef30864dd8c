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

/** What the store keeps of an account: it goes on with whoever holds it. The rest counts since its process has the account. */
const KEPT = /^delivery_(events|messages_finished|message_time|message_queue|message_attempts|attempt|dlq|event_log)/;

const isRising = ({ type }: ReceivedPoint) => type === 'counter' || type === 'histogram';
const keyOf = ({ name, labels }: ReceivedPoint) => `${name}${JSON.stringify(Object.entries(labels).sort())}`;

/** Two replicas that push to one receiver; their instances by what the receiver has. */
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
    /** All points of an account, as they came, but for those that every replica has: who holds what. */
    of: (account: string) =>
      points
        .filter(({ name, labels }) => labels.account === account && name !== 'delivery_watch_leader')
        .map(point => ({ ...point, id: idOf(point) })),
  };
}

type OfReplica = ReceivedPoint & { readonly id: Id | undefined };

const lastOfEach = (points: readonly OfReplica[], id: Id) =>
  new Map(points.filter(each => each.id === id).map(point => [keyOf(point), point]));

/** Whether the account's series, some hundred, go on at one replica, and have all ended at the other. */
function expectHeldBy(points: readonly OfReplica[], holder: Id): void {
  const values = (id: Id) => [...lastOfEach(points, id).values()].map(({ value }) => value);
  expect(values(holder).filter(value => value !== undefined).length).toBeGreaterThan(80);
  for (const id of IDS) if (id !== holder) expect(values(id).filter(value => value !== undefined)).toEqual([]);
}

/** What counters do that they must not, point by point: `seriesOf` says which points belong together. */
function faultsOf(points: readonly OfReplica[], seriesOf: (point: OfReplica) => string): string[] {
  const faults: string[] = [];
  const known = new Map<string, OfReplica>();
  for (const point of points) {
    const { name, value, since, time } = point;
    if (!isRising(point) || value === undefined) continue;
    const series = seriesOf(point);
    const before = known.get(series);
    known.set(series, point);
    if (!before) continue;
    const isReset = since !== before.since && (since ?? 0) > before.time;
    // Before the first walk of the queue it is not known.
    if (KEPT.test(name) && before.since !== undefined && since !== before.since) {
      faults.push(`${series} began at ${before.since}, then at ${since}`);
    }
    if (value < (before.value ?? 0) && !isReset) {
      faults.push(`${series} fell from ${before.value} at ${before.time} to ${value} at ${time}`);
    }
  }
  return faults;
}

/** As the receiver has one instance, and what is kept of an account, wherever it was pushed from, by the times of the points. */
const allFaultsOf = (points: readonly OfReplica[]) => [
  ...faultsOf(points, point => `${point.id} ${keyOf(point)}`),
  ...faultsOf(
    points.filter(({ name }) => KEPT.test(name)).sort((one, other) => one.time - other.time),
    keyOf,
  ),
];

it('pushes each account from its holder alone: series end there, and go on with their start times here', async () => {
  const { database, of } = await setUp();
  const moves = ['one', 'two', 'one', 'two', 'one'] as const;
  for (const holder of moves) {
    database.place('a', holder);
    await eventually(() => expectHeldBy(of('a'), holder));
  }
  const points = of('a');
  // By the times of the points, each of them has it for one time in between, and never both.
  const holders = points
    .filter(({ name, value }) => name === 'delivery_up' && value !== undefined)
    .sort((one, other) => one.time - other.time)
    .map(({ id }) => id);
  expect(holders.filter((id, index) => id !== holders[index - 1])).toEqual([...moves]);
  expect(allFaultsOf(points)).toEqual([]);
  expect(points.some(({ name, value }) => name === 'delivery_events_total' && (value ?? 0) > 100)).toBe(true);

  // One that has lost it pushes it until it knows.
  database.place('a', 'two');
  database.expire('a');
  await eventually(() => expectHeldBy(of('a'), 'two'));

  const stayed = of('b');
  expect(new Set(stayed.map(({ id }) => id))).toEqual(new Set(['one']));
  expect(allFaultsOf(stayed)).toEqual([]);
  expect(stayed.some(({ name, value }) => name === 'delivery_events_total' && value === undefined)).toBe(false);
});
