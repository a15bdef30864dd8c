import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { BUCKET_BOUNDS } from '../../src/collectors/events/tally.ts';
import { createAgent } from '../support/agent.ts';
import { createChance } from '../support/chance.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { bucketsOf, truthOf } from '../support/event-truth.ts';
import { eventually } from '../support/eventually.ts';
import { traffic } from '../support/traffic.ts';

const KILLS = 20;
const RELOADS = 100;
const MESSAGES = 4000;
/** Duration of the traffic and maximum delay of events (ms). */
const TRAFFIC = 25_000;
const LATE = 2000;
const OVERLAP = 3000;

const chance = createChance();
const upTo = (most: number) => chance.between(0, most - 1);

type Agent = ReturnType<typeof createAgent>;

async function kill(agent: Agent, scrape: () => Promise<unknown>): Promise<void> {
  for (let kill = 0; kill < KILLS; kill += 1) {
    await sleep(100 + upTo(1800));
    if (agent.url) await scrape();
    expect(await agent.end()).toBe('SIGKILL');
    agent.launch();
  }
}

/** Repeatedly reloads the account with changed labels. */
async function reload(agent: Agent, scrape: () => Promise<unknown>): Promise<void> {
  const config = JSON.parse(readFileSync(agent.configFile, 'utf8'));
  const reloads = () => (agent.process.stderr().match(/"configuration reloaded"/g) ?? []).length;
  for (let number = 0; number < RELOADS; number += 1) {
    await sleep(upTo(400));
    await scrape();
    config.accounts[0].labels = { number: String(number) };
    writeFileSync(agent.configFile, JSON.stringify(config));
    const before = reloads();
    agent.process.kill('SIGHUP');
    await eventually(() => expect(reloads()).toBeGreaterThan(before));
  }
}

it.each([
  [`even if it is killed ${KILLS} times by SIGKILL`, kill],
  [`during ${RELOADS} reloads that change the account`, reload],
])('the agent counts events and messages exactly, %s', async (_what, interrupt) => {
  const emulator = await emulateEmpty({
    dialect: {
      logLateShare: 0.3,
      logLateMs: LATE,
      logDuplicates: 0.1,
      cursorSeam: 'repeats',
      eventsMost: 100,
      highCount: 'refused',
    },
  });
  const agent = createAgent(
    {
      accounts: [
        {
          name: 'a',
          baseUrl: emulator.url,
          token: { env: 'DELIVERY_TOKEN' },
          budget: { requestsPerSecond: 2000, burst: 2000, requestsPerDay: 10_000_000 },
        },
      ],
      collect: {
        flowControl: { enabled: false },
        dlq: { enabled: false },
        events: { every: '150ms', overlap: `${OVERLAP}ms`, destination: 'route' },
        routes: ['/:kind/:id'],
      },
    },
    { DELIVERY_TOKEN: emulator.token },
  );
  /** Highest value so far of each series that must not decrease, by name and labels. */
  const highest = new Map<string, number>();
  async function scrape() {
    const { families } = await agent.scrape();
    const samples = families
      .filter(({ name }) => /^delivery_(events_total|message|attempt|event_log)/.test(name))
      .flatMap(({ name, type, samples }) => samples.map(sample => ({ family: name, type, ...sample })));
    for (const { type, name, labels, value } of samples) {
      if (type !== 'counter' && type !== 'histogram') continue;
      const series = `${name} ${JSON.stringify(labels)}`;
      expect(value, `${series} went back`).toBeGreaterThanOrEqual(highest.get(series) ?? 0);
      highest.set(series, value);
    }
    return samples;
  }
  await agent.start();
  // Counting starts with the first read, before the traffic.
  await eventually(async () => expect(await scrape().then(all => all.length)).toBeGreaterThan(0));
  await eventually(async () => {
    expect(await agent.get('/metrics')).toContain(
      'delivery_collector_success{account="a",collector="events",round="tail"} 1',
    );
  });
  const all = traffic(chance, { messages: MESSAGES, span: TRAFFIC, start: Date.now() + 2000 });
  emulator.state.addEvents(
    all.map(({ status, ...event }) => ({
      ...event,
      responseStatus: status,
      url: `https://a.example.com/users/${event.messageId}?token=x`,
    })) as never,
  );

  await interrupt(agent, scrape);

  await agent.process.listensAt();
  const truth = truthOf(all, Number.POSITIVE_INFINITY);
  const totalOf = (counts: Record<string, number>) => Object.values(counts).reduce((a, b) => a + b, 0);
  await eventually(async () => {
    const samples = await scrape();
    const sum = (family: string) =>
      samples.filter(({ name }) => name === family).reduce((sum, { value }) => sum + value, 0);
    expect(sum('delivery_events_total')).toBe(totalOf(truth.events));
    expect(sum('delivery_messages_finished_total')).toBe(totalOf(truth.finished));
  });

  const samples = await scrape();
  const by = (name: string, label: string) =>
    Object.fromEntries(
      samples
        .filter(sample => sample.name === name && sample.value > 0)
        .map(({ labels, value }) => [labels[label] ?? '', value]),
    );
  const buckets = (family: string, labels: Record<string, string> = {}) =>
    samples
      .filter(({ name }) => name === `${family}_bucket`)
      .filter(sample => Object.entries(labels).every(([label, value]) => sample.labels[label] === value))
      .map(({ value }) => value);
  expect(by('delivery_events_total', 'state')).toEqual(truth.events);
  expect(truth.events).toEqual(
    Object.fromEntries(Object.entries(emulator.state.countEvents()).filter(([, count]) => count > 0)),
  );
  expect(by('delivery_messages_finished_total', 'outcome')).toEqual(truth.finished);
  // The series of `__other__` exists from startup, with the value 0.
  const destinations = samples.flatMap(({ labels, value }) => (value > 0 ? (labels.destination ?? []) : []));
  expect(new Set(destinations)).toEqual(new Set(['/:kind/:id']));
  const answers = samples.filter(({ name, value }) => name === 'delivery_attempts_total' && value > 0);
  expect(
    Object.fromEntries(answers.map(({ labels, value }) => [`${labels.result} ${labels.status_class}`, value])),
  ).toEqual(truth.answers);
  expect(buckets('delivery_message_time_to_deliver_seconds')).toEqual(
    bucketsOf(truth.timeToDeliver, BUCKET_BOUNDS.timeToDeliver),
  );
  expect(buckets('delivery_message_queue_wait_seconds')).toEqual(bucketsOf(truth.queueWait, BUCKET_BOUNDS.queueWait));
  for (const result of ['success', 'error']) {
    const expected = bucketsOf(truth.attempt[result] ?? [], BUCKET_BOUNDS.attempt);
    expect(buckets('delivery_attempt_duration_seconds', { result })).toEqual(expected);
  }
  for (const outcome of ['delivered', 'failed', 'cancelled']) {
    const expected = bucketsOf(truth.attempts[outcome] ?? [], BUCKET_BOUNDS.attempts, 1);
    expect(buckets('delivery_message_attempts', { outcome })).toEqual(expected);
  }
  const value = (name: string) => samples.find(sample => sample.name === name)?.value;
  expect(value('delivery_messages_in_flight')).toBe(truth.inFlight.length);
  expect(value('delivery_event_log_gaps_total')).toBe(0);
  expect(value('delivery_event_log_late_total')).toBe(0);
  // Check that the log delayed and duplicated events.
  expect(value('delivery_event_log_duplicates_total')).toBeGreaterThan(100);
  expect(emulator.state.calls()['GET /v2/events']).toBeGreaterThan(100);
});
