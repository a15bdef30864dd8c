import { expect, it } from 'vitest';
import { openBase } from '../../src/agent/base.ts';
import { Supervisor } from '../../src/agent/supervisor.ts';
import { createClosing } from '../../src/kit/closing.ts';
import { StoreError } from '../../src/store/errors.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import { afterThisTest } from '../support/client.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { loadedFrom } from '../support/view-scene.ts';

/**
 * Starts a supervisor with one account. Reads of alert states and of the journal fail while `isBroken` and otherwise wait for `until`. Commits
 * fail while `isFull`. If `isReread`, settings for reading also depend on `enabled`.
 */
async function setUp(config: (enabled: boolean) => object, isReread = false) {
  const clock = createManualClock();
  const inner = createMemoryStore();
  const broken = { isBroken: false, isFull: false, until: Promise.resolve() };
  async function gate(): Promise<void> {
    if (broken.isBroken) throw new Error('disk');
    await broken.until;
  }
  const store = {
    ...inner,
    async scan(...which: Parameters<typeof inner.scan>) {
      if (which[1].startsWith('alerts/state/')) await gate();
      return inner.scan(...which);
    },
    async sizes(...which: Parameters<typeof inner.sizes>) {
      if (which[1].startsWith('auto-cancel/journal/')) await gate();
      return inner.sizes(...which);
    },
    async commit(...what: Parameters<typeof inner.commit>) {
      if (broken.isFull) throw new StoreError('io', 'the disk', 'full');
      await inner.commit(...what);
    },
  };
  const closing = createClosing();
  afterThisTest(closing.close);
  const account = { name: 'a', baseUrl: 'http://127.0.0.1:1', token: 'x' };
  const loaded = (enabled: boolean) =>
    loadedFrom({
      accounts: [{ ...account, region: enabled && isReread ? 'x' : null }],
      ...config(enabled),
    });
  const deps = { env: {}, clock, random: () => 0, openStore: async () => store };
  const supervisor = await Supervisor.open(loaded(false), await openBase(loaded(false), deps, closing));
  closing.add('accounts', () => supervisor.close());
  closing.add('loops', () => supervisor.stop());
  supervisor.start();
  return { clock, broken, supervisor, loaded };
}

/** Returns a configuration with auto-cancel. If `enabled`, alerts are evaluated and can pause auto-cancel. */
const pausedByAlerts = (enabled: boolean) => ({
  alerts: {
    enabled,
    builtin: null,
    rules: [{ name: 'Pausing', when: { above: { metric: 'delivery_dlq_messages', value: 0 } } }],
  },
  autoCancel: {
    mode: 'plan',
    rules: [{ name: 'r', match: { url: { prefix: ['https://'] } } }],
    ...(enabled ? { pauseWhileAlerts: ['Pausing'] } : {}),
  },
});

/** The same, with auto-cancel off unless `enabled`. */
function switchedOn(enabled: boolean) {
  const config = pausedByAlerts(enabled);
  return { ...config, autoCancel: { ...config.autoCancel, mode: enabled ? 'plan' : 'off' } };
}

it('starts auto-cancel only after loading its journal and the alert states that can pause it', async () => {
  const { clock, broken, supervisor, loaded } = await setUp(switchedOn);
  const acting = () => supervisor.state().autoCancel?.accounts.map(({ account }) => account) ?? [];
  expect(acting()).toEqual([]);
  broken.isBroken = true;
  await supervisor.reload(loaded(true));
  expect(acting()).toEqual([]);
  broken.isBroken = false;
  await clock.advance(60_000);
  expect(acting()).toEqual(['a']);
  expect([...supervisor.alerting.states('a')]).toEqual([['Pausing', 'unknown']]);
});

it('does not start auto-cancel if the agent is stopped while auto-cancel is being opened', async () => {
  const { clock, broken, supervisor, loaded } = await setUp(switchedOn);
  broken.isBroken = true;
  await supervisor.reload(loaded(true));
  const { promise, resolve } = Promise.withResolvers<void>();
  Object.assign(broken, { isBroken: false, until: promise });
  await clock.advance(60_000);
  const stopped = supervisor.stop();
  resolve();
  await stopped;
  expect(clock.sleepers).toBe(0);
});

it('resumes auto-cancel when a reload reverts a configuration change that was not applied because the account could not be saved', async () => {
  const { clock, broken, supervisor, loaded } = await setUp(() => pausedByAlerts(false), true);
  const acting = () => supervisor.state().autoCancel?.accounts.map(({ account }) => account);
  broken.isFull = true;
  await clock.advance(20_000);
  await supervisor.reload(loaded(true));
  expect([supervisor.state().running.map(({ name }) => name), acting()]).toEqual([['a'], []]);
  broken.isFull = false;
  await supervisor.reload(loaded(false));
  expect([supervisor.state().running.map(({ name }) => name), acting()]).toEqual([['a'], ['a']]);
});
