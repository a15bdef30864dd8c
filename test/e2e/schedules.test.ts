import { expect, it } from 'vitest';
import { acceleratedClock, systemClock } from '../../src/kit/clock.ts';
import { type DeliveryEvent, isEnd } from '../../src/model/message.ts';
import { toDeliveryEvent } from '../../src/upstream/wire.ts';
import { createAgent, unlimited } from '../support/agent.ts';
import { emulate } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';

const MINUTE = 60_000;
/** Speed of the emulator's and the agent's clock relative to real time. */
const SPEED = 200;
const GRACE = 20_000;
const ENDS_WITHIN = 50_000;

const FAST_CLOCK = new URL('../support/fast-clock.ts', import.meta.url);

/** Counts the missed and late starts within a period from the complete log. One start is due every minute. */
function truthOf(events: readonly DeliveryEvent[], from: number, to: number) {
  const counts = { missed: 0, late: 0 };
  for (let at = Math.ceil((from + 1) / MINUTE) * MINUTE; at <= to; at += MINUTE) {
    const started = events.filter(({ state, time }) => state === 'created' && time >= at && time <= at + GRACE);
    const [first] = started;
    if (!first) counts.missed += 1;
    else {
      const ends = events.filter(({ messageId, state }) => messageId === first.messageId && isEnd(state));
      const isInTime = ends.some(({ state, time }) => state === 'delivered' && time <= first.time + ENDS_WITHIN);
      if (!isInTime) counts.late += 1;
    }
  }
  return counts;
}

it('the agent counts the missed and late starts of a schedule correctly although it is killed and restarted in between', async () => {
  const since = Date.now();
  const clock = {
    ...acceleratedClock(systemClock, SPEED),
    now: () => Math.floor(since + (Date.now() - since) * SPEED),
  };
  const emulator = await emulate({ clock, scenario: 'schedule-missed', history: 0, dlqEntries: 0 });
  const schedule = { name: 'reports', match: { scheduleId: 'scd_7minutely' }, cron: '* * * * *' };
  const agent = createAgent(
    {
      accounts: [{ ...unlimited('a', emulator.url), upstream: { connectTimeout: '6h', timeout: '12h' } }],
      collect: { flowControl: { enabled: false }, dlq: { enabled: false }, events: { every: '30s', overlap: '10s' } },
      schedules: [{ ...schedule, grace: `${GRACE}ms`, endsWithin: `${ENDS_WITHIN}ms` }],
    },
    {
      DELIVERY_TOKEN: emulator.token,
      NODE_OPTIONS: `--import=${FAST_CLOCK}`,
      FAST_CLOCK: `${since} ${SPEED}`,
    },
  );
  const value = async (name: string) =>
    (await agent.value(`delivery_schedule_${name}`, { schedule: 'reports' })) ?? NaN;
  await agent.start();
  await eventually(async () => expect(await value('missed_total')).toBeGreaterThanOrEqual(2));
  const before = await value('missed_total');
  await agent.end('SIGKILL');
  await agent.start();
  // The agent was down for minutes on its clock; its counters continue from the store.
  const after = await eventually(async () => {
    const missed = await value('missed_total');
    expect(missed).not.toBeNaN();
    return missed;
  });
  expect(after).toBeGreaterThanOrEqual(before);
  await eventually(async () => expect(await value('late_total')).toBeGreaterThanOrEqual(3));
  // The schedule has recovered: its last delivery is recent.
  await eventually(async () => {
    const delivered = await value('last_delivered_timestamp_seconds');
    expect(delivered * 1000).toBeGreaterThan(emulator.clock.now() - 3 * MINUTE);
  });
  const scrape = await agent.scrape();
  const shown = (name: string) => scrape.sum(`delivery_schedule_${name}`, { schedule: 'reports' }) ?? Number.NaN;
  const first = (scrape.sum('delivery_event_log_since_timestamp_seconds') ?? 0) * 1000;
  const headers = { authorization: `Bearer ${emulator.token}` };
  const answer = await fetch(`${emulator.url}/v2/events?scheduleId=scd_7minutely&count=1000`, { headers });
  const { events: rows } = (await answer.json()) as { events: object[] };
  const events = rows.flatMap(row => toDeliveryEvent(row, Date.now()) ?? []);
  const next = shown('next_expected_timestamp_seconds') * 1000;
  const [least, most] = [truthOf(events, first, next - 3 * MINUTE), truthOf(events, first, next - MINUTE)];
  expect(least.missed).toBeGreaterThanOrEqual(2);
  expect(least.late).toBeGreaterThanOrEqual(2);
  for (const name of ['missed', 'late'] as const) {
    expect(shown(`${name}_total`)).toBeGreaterThanOrEqual(least[name]);
    expect(shown(`${name}_total`)).toBeLessThanOrEqual(most[name]);
  }
  const started = shown('last_started_timestamp_seconds') * 1000;
  expect(events.filter(({ state }) => state === 'created').map(({ time }) => time)).toContain(started);
});
