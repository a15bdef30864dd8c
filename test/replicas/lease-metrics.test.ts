import { expect, it } from 'vitest';
import { createExposition } from '../../src/metrics/exposition.ts';
import { createLeaseMeter } from '../../src/metrics/replicas.ts';
import { withLeaseMetrics } from '../../src/replicas/lease-metrics.ts';
import { StoreError } from '../../src/store/errors.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import type { RenewalResult, Replica, Replicas } from '../../src/store/store.ts';

const NOTHING: RenewalResult = { gained: [], lost: [], excess: [] };
const [self, other] = ['one', 'two'].map((id): Replica => ({ id, url: `http://${id}:10922`, since: 0 }));

/**
 * Creates replicas whose consecutive renewals return these results. Undefined: the database is unavailable. A renewal takes 20
 * ms.
 */
function scripted(turns: (RenewalResult | undefined)[]) {
  let [now, renewals] = [0, 0];
  const replicas: Replicas = {
    self: self as Replica,
    leaseTime: 15_000,
    async renew() {
      now += 20;
      const turn = turns.shift();
      if (!turn) throw new StoreError('io', 'the database');
      renewals += 1;
      return turn;
    },
    release: async () => {},
    leave: async () => {},
    remaining: () => 0,
    sharing: () =>
      renewals === 0
        ? undefined
        : { at: 1_700_000_000_500 + now, replicas: [self as Replica, other as Replica], holders: new Map() },
  };
  return { replicas, clock: { now: () => 0, monotonic: () => now } };
}

function scene(turns: (RenewalResult | undefined)[]) {
  const { replicas, clock } = scripted(turns);
  const { store, leases } = withLeaseMetrics({ ...createMemoryStore(), replicas }, clock);
  if (!leases || !store.replicas) throw new Error('the store is shared');
  const exposition = createExposition([leases.sourceOf(['a', 'b'], account => account === 'a')]);
  const shown = async () =>
    (await exposition.render({ scope: 'agent', format: 'text', gzip: false }))
      .toString()
      .split('\n')
      .filter(line => line !== '' && !line.startsWith('#') && !line.includes('_bucket'));
  return { replicas: store.replicas, shown };
}

it('lease metrics before the first renewal contain the held accounts, but neither the number of replicas nor the time of the last renewal', async () => {
  expect(await scene([]).shown()).toEqual([
    'delivery_watch_leader{account="a"} 1',
    'delivery_watch_leader{account="b"} 0',
    'delivery_watch_lease_renewals_total{outcome="ok"} 0',
    'delivery_watch_lease_renewals_total{outcome="failed"} 0',
    'delivery_watch_lease_renewal_duration_seconds_sum 0',
    'delivery_watch_lease_renewal_duration_seconds_count 0',
    'delivery_watch_lease_hand_overs_total{reason="gained"} 0',
    'delivery_watch_lease_hand_overs_total{reason="released"} 0',
    'delivery_watch_lease_hand_overs_total{reason="lost"} 0',
  ]);
});

it('delivery_watch_leader becomes 0 as soon as the account is no longer held, without waiting for a renewal', async () => {
  let isHeld = true;
  const meter = createLeaseMeter(() => undefined);
  const exposition = createExposition([meter.sourceOf(['a'], () => isHeld)]);
  const text = async () => (await exposition.render({ scope: 'agent', format: 'text', gzip: false })).toString();
  expect(await text()).toContain('delivery_watch_leader{account="a"} 1');
  isHeld = false;
  expect(await text()).toContain('delivery_watch_leader{account="a"} 0');
});

it('lease metrics count renewals, and each handover of an account once, excluding the agent-wide lease', async () => {
  const { replicas, shown } = scene([
    { ...NOTHING, gained: ['', 'a', 'b', 'c'] },
    undefined,
    { ...NOTHING, lost: ['a'], excess: ['b'] },
    // Every renewal returns lost and excess accounts until they are released.
    { ...NOTHING, lost: ['a'], excess: ['b'] },
  ]);
  await replicas.renew(['', 'a', 'b', 'c']);
  await expect(replicas.renew([])).rejects.toThrow(StoreError);
  await replicas.renew([]);
  await replicas.renew([]);
  // Only `b` counts as released, because `a` was already counted as lost. The second call releases the rest, as at shutdown.
  await replicas.release(['a', 'b']);
  await replicas.release(['', 'c']);
  expect((await shown()).slice(2)).toEqual([
    'delivery_watch_replicas 2',
    'delivery_watch_lease_last_renewal_timestamp_seconds 1700000000.58',
    'delivery_watch_lease_renewals_total{outcome="ok"} 3',
    'delivery_watch_lease_renewals_total{outcome="failed"} 1',
    'delivery_watch_lease_renewal_duration_seconds_sum 0.08',
    'delivery_watch_lease_renewal_duration_seconds_count 4',
    'delivery_watch_lease_hand_overs_total{reason="gained"} 3',
    'delivery_watch_lease_hand_overs_total{reason="released"} 2',
    'delivery_watch_lease_hand_overs_total{reason="lost"} 1',
  ]);
});

it('withLeaseMetrics adds no metrics to a store that is not shared', () => {
  const store = createMemoryStore();
  expect(withLeaseMetrics(store, { monotonic: () => 0 })).toEqual({ store, leases: undefined });
});
