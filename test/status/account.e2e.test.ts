import { expect, it } from 'vitest';
import { AccountView } from '../../src/status/api/account.ts';
import { OverviewQuery } from '../../src/status/api/overview.ts';
import { eventually } from '../support/eventually.ts';
import { exposedValue, shownNumbers } from '../support/view-families.ts';
import type { ViewScene } from '../support/view-scene.ts';
import { createViewScene, loadedFrom, NAME } from '../support/view-scene.ts';

const MINUTE = 60_000;

/** Adds data of every kind, some of it hostile, to the emulator. */
function fill({ emulator: { state }, clock }: ViewScene): void {
  for (const [index, responseStatus] of [500, 404, 500, 0].entries()) {
    const createdAt = clock.now() - (index + 1) * MINUTE;
    const url = `https://${index % 2 === 0 ? 'api' : 'hooks'}.example.com/v1/orders/${index}?token=secret#part`;
    state.addDlqEntry({ enteredAt: createdAt + 5000, createdAt, responseStatus, url, label: HOSTILE });
  }
  state.addFailedRun({ enteredAt: clock.now() - 10 * MINUTE, workflowUrl: 'https://flow.example.com/run?key=secret' });
  state.setWaitlist('mail/send', 12);
  state.setWaitlist(HOSTILE, 3);
}

/** Adds the events of a message that is delivered on the second attempt and of a message that fails. */
function addEvents({ emulator: { state }, clock }: ViewScene): void {
  for (const [index, status] of (['created', 'active', 'error', 'retry', 'active', 'delivered'] as const).entries()) {
    state.addEvent({
      messageId: 'msg_1',
      state: status,
      time: clock.now() + index * 1000,
      url: 'https://a.example.com/',
    });
  }
  state.addEvent({ state: 'failed', time: clock.now() + 2000, url: `https://${'b'.repeat(300)}.example.com/x` });
}

const HOSTILE = '<script>"key"\\\n\u0000\ud800é';

const EVERYTHING = {
  account: {
    retention: { dlq: '7d' },
    limits: { dlqSize: 1000 },
    labels: { team: 'orders', note: '"><b>' },
    region: 'eu-west-1',
  },
  config: {
    collect: {
      dlq: { filters: [{ name: 'status-500', match: { responseStatus: 500 } }], breakdowns: ['urlHost', 'label'] },
      events: { destination: 'host' },
    },
    objectives: { dlqMaxAge: '5m' },
    schedules: [{ name: 'nightly', match: { scheduleId: 'scd_1' }, cron: '* * * * *', grace: '1m' }],
  },
};

/** Returns the view and the exposition of the same instant. Retries if a round ended in between. */
const sameInstant = (scene: ViewScene) =>
  eventually(async () => {
    const view = scene.view();
    const families = await scene.exposition();
    expect(scene.view()).toEqual(view);
    return { view, families };
  });

/** Asserts that the view matches the schema and its numbers match the exposition at the same instant. */
async function expectSame(scene: ViewScene): Promise<AccountView> {
  const { view, families } = await sameInstant(scene);
  const numbers = shownNumbers(view);
  const viewed = numbers.map(({ path, value }) => [path, value]);
  expect(viewed).toEqual(numbers.map(number => [number.path, exposedValue(families, NAME, number)]));
  expect(AccountView.parse(view)).toEqual(view);
  expect(JSON.stringify(view).isWellFormed()).toBe(true);
  expect(JSON.stringify(view)).not.toContain('secret');
  expect(JSON.stringify(view)).not.toContain('view-token');
  return view;
}

const isRead = ({ deadLetters, events, flowControl }: AccountView) =>
  expect([deadLetters.data, events.data, flowControl.data]).toEqual(['fresh', 'fresh', 'fresh']);

it('before the first read, the account view shows only the configuration and stored state', async () => {
  const scene = await createViewScene(EVERYTHING.account, EVERYTHING.config);
  const { state, up, deadLetters, events, flowControl, schedules, region, labels } = await expectSame(scene);
  expect({ state, up, region, labels }).toEqual({
    state: 'unknown',
    up: false,
    region: 'eu-west-1',
    labels: { team: 'orders', note: '"><b>' },
  });
  expect([deadLetters, events, flowControl].map(({ data, enabled }) => `${data} ${enabled}`)).toEqual(
    Array(3).fill('not_read true'),
  );
  expect([
    deadLetters.messages,
    deadLetters.oldestEntered,
    events.recent,
    events.inFlight,
    flowControl.waiting,
  ]).toEqual(Array(5).fill(null));
  expect(schedules).toMatchObject([{ name: 'nightly', state: 'unknown', next: null, missed: 0 }]);
});

it('the account view shows the same numbers as /metrics', async () => {
  const scene = await createViewScene(EVERYTHING.account, EVERYTHING.config);
  fill(scene);
  scene.start();
  await scene.until(isRead);
  addEvents(scene);
  const ended = (outcome: 'delivered' | 'failed') => (view: AccountView) =>
    view.events.destinations.reduce((sum, row) => sum + row[outcome], 0);
  await scene.until(view => expect([ended('delivered')(view), ended('failed')(view)]).toEqual([1, 1]), 15);
  const view = await expectSame(scene);
  expect(view).toMatchObject({
    up: true,
    deadLetters: {
      messages: 5,
      most: 1000,
      retentionSeconds: 604_800,
      nextExpiry: '2026-01-08T11:50:00.000Z',
      filters: [{ name: 'status-500', messages: 3 }],
      callbacks: { in_progress: 1 },
    },
    flowControl: { keys: 2, waiting: 15 },
    calls: { tokenRejected: false, budgetPerDay: 200_000 },
  });
  expect(view.flowControl.rows.map(({ key }) => key)).toEqual(['mail/send', HOSTILE.toWellFormed()]);
  expect(view.deadLetters.newestEntries.map(({ url }) => url)).toContain('https://api.example.com/v1/orders/0');
  expect(view.deadLetters.newestEntries.flatMap(({ labels }) => labels)).toContain(HOSTILE.toWellFormed());
  expect(view.deadLetters.kinds.largest.every(({ route }) => route !== '')).toBe(true);
  const { problems, rows } = await scene.core.served.views().overview(OverviewQuery.parse({}));
  expect(problems).toEqual(view.problems);
  expect(problems.map(({ text }) => text).join()).toContain('/v1/orders/*');
  expect(rows).toMatchObject([{ account: NAME, deadLetters: 5, waiting: 15, worst: view.problems[0] }]);
});

it('the account view shows zeros instead of missing values for an empty account', async () => {
  const scene = await createViewScene();
  scene.start();
  await scene.until(isRead);
  const { state, deadLetters, flowControl, events } = await expectSame(scene);
  expect([state, deadLetters.messages, deadLetters.oldestEntered]).toEqual(['ok', 0, null]);
  expect(deadLetters.breakdowns.map(({ dimension, values }) => [dimension, values])).toContainEqual(['urlHost', []]);
  expect(flowControl).toMatchObject({ keys: 0, waiting: 0, rows: [] });
  expect(events).toMatchObject({ inFlight: 0, oldestInFlight: null });
});

it('the account view shows data as stale and then as withdrawn, and keeps counters', async () => {
  const scene = await createViewScene(EVERYTHING.account, EVERYTHING.config);
  fill(scene);
  scene.start();
  await scene.until(isRead);
  scene.emulator.faults.add({ kind: 'status', status: 503 });
  const data = ({ deadLetters, events, flowControl }: AccountView) => [deadLetters.data, events.data, flowControl.data];
  await scene.until(view => expect(data(view)).toEqual(['stale', 'stale', 'stale']), 15);
  const stale = await expectSame(scene);
  expect([stale.deadLetters.messages, stale.flowControl.waiting, stale.up]).toEqual([5, 15, false]);
  expect(stale.rounds.find(({ round }) => round === 'list')).toMatchObject({
    state: 'stale',
    failure: { reason: 'server' },
  });
  await scene.until(view => expect(data(view)).toEqual(['withdrawn', 'withdrawn', 'withdrawn']), 60);
  const gone = await expectSame(scene);
  expect(gone.deadLetters).toMatchObject({ messages: null, change: null, nextExpiry: null, callbacks: null });
  expect(gone.deadLetters.newestEntries).toEqual([]);
  expect(gone.deadLetters.entered).toBe(0);
  expect(gone.flowControl).toMatchObject({ keys: null, waiting: null, rows: [] });
  expect(gone.schedules).toMatchObject([{ state: 'unknown' }]);
  expect(gone.rounds.find(({ round }) => round === 'list')?.state).toBe('withdrawn');
});

it('the account view shows a rejected token and a disabled collector', async () => {
  const scene = await createViewScene({ token: 'not-it' }, { collect: { events: { enabled: false } } });
  scene.start();
  await scene.until(({ calls }) => expect(calls.tokenRejected).toBe(true));
  const view = await expectSame(scene);
  expect(view.events).toMatchObject({ enabled: false, data: 'not_read', lastHour: null });
  expect(view.rounds.map(({ collector }) => collector)).not.toContain('events');
  expect(view.rounds.find(({ round }) => round === 'full')).toMatchObject({
    state: 'failing',
    failure: { reason: 'unauthorized' },
  });
});

it('the account view shows a paused key and a schedule that does not start', async () => {
  const scene = await createViewScene({}, EVERYTHING.config);
  scene.emulator.state.setWaitlist('held', 7);
  const { flow } = scene.emulator.state;
  const message = { url: 'https://a.example.com/', method: 'POST', header: {}, maxRetries: 0, topicId: '' };
  flow.enter({ ...message, flowControlKey: 'held' }, () => undefined);
  flow.change('held', { paused: true });
  scene.start();
  await scene.until(isRead);
  await scene.until(({ schedules }) => expect(schedules[0]?.missed).toBeGreaterThan(0), 30);
  const view = await expectSame(scene);
  expect(view.schedules).toMatchObject([{ name: 'nightly', state: 'missed', lastStarted: null }]);
  expect(view.flowControl.rows).toMatchObject([
    { key: 'held', waiting: 7, state: 'paused', paused: true, drainSeconds: null },
  ]);
});

it('the account view shows the new configuration after a reload, and keeps the data of an unchanged account', async () => {
  const scene = await createViewScene();
  fill(scene);
  scene.start();
  await scene.until(isRead);
  const { emulator } = scene;
  const { served, supervisor } = scene.core;
  const account = (name: string, baseUrl = emulator.url) => ({ name, baseUrl, token: 'view-token' });
  const others = { accounts: [account('other', 'http://127.0.0.1:1')] };
  const { config } = loadedFrom(others);
  const both = { ...supervisor.loaded.config, accounts: [...supervisor.loaded.config.accounts, ...config.accounts] };
  await supervisor.reload({ ...supervisor.loaded, hash: 'b', config: both });
  expect(scene.view().deadLetters.messages).toBe(5);
  expect(served.views().account('other')).toMatchObject({ account: 'other', deadLetters: { messages: null } });
  await supervisor.reload(loadedFrom(others));
  expect(served.views().account(NAME)).toBeUndefined();
  const { rows } = await served.views().overview(OverviewQuery.parse({}));
  expect(rows.map(({ account }) => account)).toEqual(['other']);
});

it('like /metrics, the account view shows the previous data of a changed account until its first complete round', async () => {
  const scene = await createViewScene(EVERYTHING.account, EVERYTHING.config);
  fill(scene);
  scene.start();
  await scene.until(view => {
    isRead(view);
    expect(view.deadLetters.most).toBe(1000);
  });
  const { emulator } = scene;
  const { supervisor } = scene.core;
  const before = scene.view();
  emulator.faults.add({ kind: 'status', status: 503 });
  const [account] = supervisor.loaded.config.accounts;
  if (!account) throw new Error('no account');
  const { dlq } = account.collect;
  const breakdowns = { ...dlq, breakdowns: ['label' as const], rescanEvery: 2 * dlq.rescanEvery };
  const accounts = [{ ...account, collect: { ...account.collect, dlq: breakdowns } }];
  const config = { ...supervisor.loaded.config, accounts };
  await supervisor.reload({ ...supervisor.loaded, hash: 'b', config });
  const { deadLetters, events, flowControl } = await expectSame(scene);
  expect(deadLetters).toEqual(before.deadLetters);
  expect(events.newest).toEqual(before.events.newest);
  expect(flowControl.rows).toEqual(before.flowControl.rows);
});
