import { expect } from 'vitest';
import { BUCKET_BOUNDS } from '../../src/collectors/events/tally.ts';
import { NO_ACCOUNT } from '../../src/store/store.ts';
import type { Scrape } from './agent.ts';
import { createChance } from './chance.ts';
import { emulateEmpty } from './emulate.ts';
import { bucketsOf, type TrueEvent, truthOf } from './event-truth.ts';
import { atThisLoad, eventually } from './eventually.ts';
import { createReplicas } from './replicas.ts';
import { traffic } from './traffic.ts';

const NAMES = ['a', 'b', 'c'] as const;
/** Maximum delay of events in the log, and overlap of reads (ms). */
const [LATE, OVERLAP] = [1000, 2500];

const countOf = (counts: Readonly<Record<string, number>>) => Object.values(counts).reduce((sum, one) => sum + one, 0);

/** Compares the event metrics of an account with a log of complete life cycles. */
function expectTruth({ samples }: Scrape, account: string, all: readonly TrueEvent[]): void {
  const truth = truthOf(all, Number.POSITIVE_INFINITY);
  const by = (name: string, label: string) =>
    Object.fromEntries(
      samples(name, { account }).flatMap(({ labels, value }) => (value > 0 ? [[labels[label] ?? '', value]] : [])),
    );
  expect(by('delivery_events_total', 'state')).toEqual(truth.events);
  expect(by('delivery_messages_finished_total', 'outcome')).toEqual(truth.finished);
  const buckets = (name: string) => samples(`${name}_bucket`, { account }).map(({ value }) => value);
  expect(buckets('delivery_message_time_to_deliver_seconds')).toEqual(
    bucketsOf(truth.timeToDeliver, BUCKET_BOUNDS.timeToDeliver),
  );
  expect(buckets('delivery_message_queue_wait_seconds')).toEqual(bucketsOf(truth.queueWait, BUCKET_BOUNDS.queueWait));
  const value = (name: string) => samples(name, { account })[0]?.value;
  expect(value('delivery_messages_in_flight')).toBe(truth.inFlight.length);
  expect(value('delivery_event_log_gaps_total')).toBe(0);
}

/**
 * Moves accounts between two agents `handOvers` times during deliveries: most leases are released, some expire. Finally checks
 * that everything was counted exactly once. Returns how many resources are open after a third of the moves and at the end.
 */
export async function handOverAgainAndAgain(handOvers: number, messages: number) {
  const chance = createChance();
  const emulator = await emulateEmpty({
    accounts: NAMES.length,
    dialect: { logLateShare: 0.3, logLateMs: LATE, logDuplicates: 0.1, cursorSeam: 'repeats', eventsMost: '100' },
  });
  const { database, start } = createReplicas();
  const config = {
    accounts: NAMES.map((name, index) => ({
      name,
      baseUrl: emulator.url,
      token: emulator.accounts[index]?.credentials.token,
      budget: { requestsPerSecond: 2000, burst: 2000, requestsPerDay: 10_000_000 },
    })),
    collect: {
      flowControl: { every: '200ms' },
      dlq: { every: '300ms' },
      events: { every: '100ms', overlap: `${OVERLAP}ms` },
    },
  };
  for (const name of [NO_ACCOUNT, ...NAMES]) database.place(name, 'one');
  const replicas = { one: await start('one', config), two: await start('two', config) };
  /**
   * Highest value of each counter on any replica. A replica that lost an account exposes old values until it detects
   * the loss.
   */
  const highest = new Map<string, number>();
  const decreased: string[] = [];

  async function scrape(): Promise<readonly Scrape[]> {
    const scrapes = [];
    for (const [id, replica] of Object.entries(replicas)) {
      const scrape = await replica.scrape();
      scrapes.push(scrape);
      for (const { name, type, samples } of scrape.families) {
        if (!/^delivery_(events|message|attempt|event_log)/.test(name) || type === 'gauge') continue;
        for (const { name, labels, value } of samples) {
          if (database.holders().get(labels.account ?? '') !== id) continue;
          const series = `${name}${JSON.stringify(labels)}`;
          if (value < (highest.get(series) ?? 0)) decreased.push(`${series} ${highest.get(series)} to ${value}`);
          highest.set(series, value);
        }
      }
    }
    return scrapes;
  }
  const holderOf = (all: readonly Scrape[], account: string) =>
    all.filter(({ samples }) => samples('delivery_up', { account }).length > 0);

  await eventually(async () => {
    const [one] = await scrape();
    const reads = one?.samples('delivery_collector_success', { collector: 'events', round: 'tail' });
    expect(reads?.map(({ value }) => value)).toEqual([1, 1, 1]);
  });
  const begin = Date.now() + 1000;
  const span = atThisLoad(handOvers * 60);
  const eventsByAccount = new Map(
    NAMES.map(name => [name, traffic(chance, { messages, span, start: begin, prefix: name })] as const),
  );
  for (const [index, name] of NAMES.entries()) {
    const events = (eventsByAccount.get(name) ?? []).map(({ status, ...event }) => ({
      ...event,
      responseStatus: status,
    }));
    emulator.accounts[index]?.state.addEvents(events as never);
  }

  const resources = () => {
    const open = process.getActiveResourcesInfo();
    return { timers: open.filter(what => what === 'Timeout').length, handles: open.length };
  };
  let early: ReturnType<typeof resources> | undefined;
  for (let time = 0; time < handOvers; time += 1) {
    const name = NAMES[chance.between(0, NAMES.length - 1)] as string;
    const to = database.holders().get(name) === 'one' ? 'two' : 'one';
    database.place(name, to);
    if (chance.fraction() < 0.3) database.expire(name);
    await eventually(async () =>
      expect(database.course.findLast(step => step.endsWith(`gained ${name}`))).toBe(`${to} gained ${name}`),
    );
    // Sometimes the next move starts while this account is still opening.
    if (chance.fraction() < 0.7) await eventually(async () => expect(holderOf(await scrape(), name)).toHaveLength(1));
    if (time === Math.floor(handOvers / 3)) early = resources();
  }

  await eventually(async () => {
    const all = await scrape();
    for (const name of NAMES) {
      const [holder, ...others] = holderOf(all, name);
      expect(others).toEqual([]);
      const truth = truthOf(eventsByAccount.get(name) ?? [], Number.POSITIVE_INFINITY);
      expect(holder?.sum('delivery_events_total', { account: name })).toBe(countOf(truth.events));
      expect(holder?.sum('delivery_messages_finished_total', { account: name })).toBe(countOf(truth.finished));
    }
  });
  const all = await scrape();
  for (const name of NAMES) expectTruth(holderOf(all, name)[0] as Scrape, name, eventsByAccount.get(name) ?? []);
  expect(decreased).toEqual([]);
  return { early, last: resources() };
}
