import { expect, it } from 'vitest';
import { type Account, openAccount } from '../../src/agent/account.ts';
import { Config } from '../../src/config/schema.ts';
import { startEmulator } from '../../src/emulator/server.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import { createDispatchers } from '../../src/upstream/dispatcher.ts';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { json, serve, startHttpService } from '../support/http-service.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { createTestLog, createTestTracer } from '../support/silent.ts';

const SECOND = 1000;

/** Sets up accounts of one process that share a store. `open` opens an account by name. */
function setUp(accounts: readonly { readonly name: string; readonly baseUrl: string }[], clock = createManualClock()) {
  const store = createMemoryStore();
  const dispatchers = createDispatchers({});
  afterThisTest(async () => void (await dispatchers.destroy()));
  const config = Config.parse({
    store: { kind: 'memory' },
    accounts: accounts.map(each => ({
      ...each,
      token: 'secret-token',
      budget: { requestsPerSecond: 1000, burst: 1000 },
    })),
  });
  const deps = {
    config,
    env: {},
    dispatchers,
    requestSeconds: { observe: () => undefined },
    store,
    clock,
    random: () => 0,
    log: createTestLog(),
    tracer: createTestTracer(),
    secrets: { of: () => [] },
  };
  async function open(name: string): Promise<Account> {
    const settings = config.accounts.find(each => each.name === name);
    if (!settings) throw new Error(`there is no account ${name}`);
    const account = await openAccount(settings, deps);
    afterThisTest(() => account.close());
    return account;
  }
  /** Starts the accounts and waits for their first rounds. */
  async function start(...accounts: Account[]): Promise<void> {
    const starting = Promise.all(accounts.map(account => account.start()));
    await clock.advance(0);
    await starting;
  }
  return { store, open, start };
}

/** Returns the sum of a family's samples. */
const sum = ({ sources }: Account, family: string) =>
  sources.flatMap(source => source.samples().get(family) ?? []).reduce((all, { value }) => all + value, 0);

it('an account keeps its counters when it is closed and reopened, sends no requests while closed, and does not affect another account', async () => {
  const clock = createManualClock();
  const emulator = await startEmulator({
    clock,
    token: 'secret-token',
    history: 0,
    dlqEntries: 3,
    workload: false,
  });
  afterThisTest(() => emulator.close());
  const accounts = ['a', 'b'].map(name => ({ name, baseUrl: emulator.url }));
  const { store, open, start } = setUp(accounts, clock);
  const begun = clock.now();
  const [first, other] = [await open('a'), await open('b')];
  expect([first.spent().requests, other.spent().requests]).toEqual([0, 0]);
  await start(first, other);
  expect([first.status().up, other.status().up]).toEqual([true, true]);

  /** Adds one event and advances time until the account has counted `events` events. */
  async function count(account: Account, events: number): Promise<void> {
    emulator.state.addEvent({ state: 'created', time: clock.now() + SECOND });
    await eventually(async () => {
      await clock.advance(20 * SECOND);
      expect(sum(account, 'delivery_events_total')).toBe(events);
    });
  }
  await count(first, 1);
  await first.close();
  const [spent, remaining] = [first.spent().requests, sum(first, 'delivery_watch_api_budget_remaining')];
  const otherRequests = other.spent().requests;
  await eventually(async () => {
    await clock.advance(20 * SECOND);
    expect(other.spent().requests).toBeGreaterThan(otherRequests + 10);
  });
  expect(first.spent().requests).toBe(spent);
  await start(first);
  expect(first.spent().requests).toBe(spent);
  const left = await store.scan('a', 'account-state/');
  expect(JSON.parse(left.get('account-state/freshness') ?? '{}').dlq.full.completeAt).toBeGreaterThanOrEqual(begun);

  const again = await open('a');
  expect(again.spent().requests).toBe(0);
  expect(sum(again, 'delivery_events_total')).toBe(1);
  expect(sum(again, 'delivery_watch_api_budget_remaining')).toBe(remaining);
  expect(again.dlqFacts()).toBeUndefined();
  await start(again);
  expect(again.dlqFacts()?.selections.get('all')?.messages).toBe(3);
  await count(again, 2);
  expect(other.status().up).toBe(true);
});

it('exposes counters after a day of downtime, even if the service is unreachable', async () => {
  const clock = createManualClock();
  const emulator = await startEmulator({ clock, token: 'secret-token', history: 0, workload: false });
  afterThisTest(() => emulator.close());
  const { open, start } = setUp([{ name: 'a', baseUrl: emulator.url }], clock);
  const first = await open('a');
  await start(first);
  emulator.state.addEvent({ state: 'created', time: clock.now() + SECOND });
  await eventually(async () => {
    await clock.advance(20 * SECOND);
    expect(sum(first, 'delivery_events_total')).toBe(1);
  });
  await first.close();
  await emulator.close();
  await clock.advance(86_400 * SECOND);
  const next = await open('a');
  expect(sum(next, 'delivery_events_total')).toBe(1);
  const starting = start(next);
  await eventually(async () => {
    await clock.advance(20 * SECOND);
    expect(next.status().collectors.find(({ collector }) => collector === 'events')?.rounds[0]?.success).toBe(false);
  });
  expect(sum(next, 'delivery_events_total')).toBe(1);
  await next.close();
  await starting;
});

it('closes an account immediately even if the service does not respond', async () => {
  const service = await startHttpService(() => undefined);
  afterThisTest(() => service.close());
  const { open, start } = setUp([{ name: 'a', baseUrl: service.url }]);
  const account = await open('a');
  const starting = start(account);
  // Rounds of optional lists start later: a request of one may be on its way when the account is closed.
  const seen = () => service.requests.filter(request => /dlq|events|flowControl/.test(request));
  await eventually(() => expect(seen().length).toBeGreaterThan(2));
  const before = seen();
  await account.close();
  await starting;
  expect(seen()).toEqual(before);
});

it('withdraws the data of a list when three consecutive rounds get responses without the list, even across a restart', async () => {
  const real: Readonly<Record<string, object>> = {
    '/v2/dlq': { messages: [{ dlqId: '1-0' }, { dlqId: '2-0' }] },
    '/v2/events': { events: [] },
    '/v2/flowControl': { flowControls: [{ flowControlKey: 'k', waitListSize: 3 }] },
  };
  let isReal = true;
  const service = await serve((request, response) => {
    json(response, isReal ? real[new URL(request.url ?? '', 'http://service').pathname] : {});
  });
  const { open } = setUp([
    { name: 'a', baseUrl: service.url },
    { name: 'b', baseUrl: service.url },
  ]);
  const run = async (account: Account, ...names: string[]) => {
    for (const name of names) {
      await account.rounds.find(({ round }) => round === name)?.run(new AbortController().signal);
    }
    const rounds = account.status().collectors.flatMap(({ rounds }) => rounds);
    return names.map(name => rounds.find(({ round }) => round === name)?.success);
  };
  const sizes = (account: Account) =>
    ['delivery_dlq_messages', 'delivery_dlq_left_total', 'delivery_flow_control_keys'].map(name => sum(account, name));
  const first = await open('a');
  expect(await run(first, 'full', 'tail', 'list')).toEqual([true, true, true]);
  isReal = false;
  expect(await run(first, 'full', 'tail', 'list')).toEqual([false, false, false]);
  expect(sizes(first)).toEqual([2, 0, 1]);
  await first.close();
  const next = await open('a');
  expect(await run(next, 'full', 'tail', 'list')).toEqual([false, false, false]);
  expect(await run(next, 'full', 'tail', 'list')).toEqual([false, false, false]);
  expect(sizes(next)).toEqual([0, 0, 0]);
  expect(next.dlqFacts()).toBeUndefined();
  expect(await run(next, 'full', 'tail', 'list')).toEqual([true, true, true]);
  expect(sizes(next)).toEqual([0, 2, 0]);
  // Two rounds of each list, and the workflow runs of the third walk.
  expect(sum(next, 'delivery_lists_missing_total')).toBe(7);
  // Another account of the same service has never had a list.
  expect(await run(await open('b'), 'full', 'tail', 'list')).toEqual([true, true, true]);
});

it('probes a missing list every hour, reads it as soon as it appears, and reports the account as up in any case', async () => {
  const clock = createManualClock();
  let lists: 'absent' | 'failing' | 'present' = 'absent';
  const service = await serve((request, response) => {
    const path = request.url?.replace(/\?.*/, '');
    if (path !== '/v2/schedules') json(response, path === '/v2/flowControl' ? [] : { events: [], messages: [] });
    else if (lists === 'present') json(response, [{ scheduleId: 'nightly', isPaused: true }]);
    else json(response, {}, lists === 'absent' ? 404 : 500);
  });
  const { open, start } = setUp([{ name: 'a', baseUrl: service.url }], clock);
  const account = await open('a');
  await start(account);
  const probes = () => service.requests.filter(request => request === 'GET /v2/schedules').length;
  const pass = async (minutes: number) => {
    for (let minute = 0; minute < minutes; minute += 1) {
      const sent = service.requests.length;
      await clock.advance(60 * SECOND);
      await eventually(() => expect(service.requests.length).toBeGreaterThan(sent));
    }
  };
  const round = () => account.status().collectors.find(({ collector }) => collector === 'schedules')?.rounds[0];
  const paused = () => sum(account, 'delivery_schedule_paused');
  await pass(58);
  expect([probes(), account.status().up, round()?.idle, round()?.stale]).toEqual([1, true, 'absent', false]);
  lists = 'present';
  await pass(4);
  await eventually(() => expect([probes(), paused()]).toEqual([2, 1]));
  lists = 'failing';
  await pass(40);
  expect(account.status().up).toBe(true);
  expect(round()).toMatchObject({ stale: true, success: false, failure: { reason: 'server' } });
  // No longer shown: the last read was more than half an hour ago.
  expect(paused()).toBe(0);
});

it('reports a token of another region, which gets 404 everywhere, as a failure of every list', async () => {
  const error = 'user (00000000-0000-4000-8000-000000000000) not found in this region (eu-central-1)';
  const service = await serve((_, response) => json(response, { error }, 404));
  const { open, start } = setUp([{ name: 'a', baseUrl: service.url }]);
  const account = await open('a');
  await start(account);
  const { up, collectors } = account.status();
  const failures = collectors.flatMap(({ collector, rounds }) =>
    rounds.flatMap(({ failure }) => (failure ? [[collector, failure.message]] : [])),
  );
  expect(up).toBe(false);
  expect(failures).toContainEqual(['schedules', expect.stringContaining('not found in this region (eu-central-1)')]);
});
it.each([31_000, -31_000])(
  'an account restarts the sightings of a callback if the clock was stepped by %d ms between two walks',
  async step => {
    const service = await serve((_, response) => {
      json(response, {
        messages: [{ dlqId: '1-0', messageId: 'm', failureCallbackInfo: { state: 'CALLBACK_INPROGRESS' } }],
      });
    });
    const manual = createManualClock();
    let offset = 0;
    const clock = { ...manual, now: () => manual.now() + offset };
    const { open } = setUp([{ name: 'a', baseUrl: service.url }], clock);
    const account = await open('a');
    async function walk(): Promise<number | undefined> {
      await clock.advance(60 * SECOND);
      await account.rounds.find(({ round }) => round === 'full')?.run(new AbortController().signal);
      return account.dlqFacts()?.tracked?.sightings[0]?.snapshots;
    }
    expect([await walk(), await walk()]).toEqual([1, 2]);
    offset += step;
    expect([await walk(), await walk()]).toEqual([1, 2]);
  },
);
