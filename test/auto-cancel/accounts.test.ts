import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Account } from '../../src/agent/account.ts';
import {
  type AutoCancel,
  AutoCancelAccounts,
  type OpenAutoCancel,
  policyFor,
  readJournals,
} from '../../src/auto-cancel/accounts.ts';
import { openJournal, readJournal } from '../../src/auto-cancel/journal.ts';
import { parseConfig } from '../../src/config/load.ts';
import type { Config } from '../../src/config/schema.ts';
import type { CallbackSighting } from '../../src/model/callback.ts';
import { StoreError } from '../../src/store/errors.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import type { Store } from '../../src/store/store.ts';
import { toDlqEntry } from '../../src/upstream/wire.ts';
import { afterThisTest } from '../support/client.ts';
import { newFolder } from '../support/folder.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { giveOrder } from '../support/operators.ts';
import { createTestLog, createTestTracer, noJournals } from '../support/silent.ts';

const HOUR = 3_600_000;
const NOW = Date.UTC(2027, 0, 10);
const never = new AbortController().signal;
const order = (store: Store, kind: 'pause' | 'resume', reason: string) =>
  giveOrder({ kind, by: 'ann', reason }, { store, accounts: [], clock: createManualClock(NOW), waitMs: 0 });

/** An agent with its open accounts. */
interface Agent {
  readonly accounts: AutoCancelAccounts;
  readonly opened: ReadonlyMap<string, OpenAutoCancel>;
}

/**
 * Sets up agents in plan mode that share a store. Each account has dead letters with the fields in `rows`. Their callbacks
 * have been in progress for days.
 */
function setUp(...rows: object[]) {
  const store = createMemoryStore();
  const clock = createManualClock(NOW);
  const log = createTestLog();
  const stopFile = join(newFolder(), 'STOP');
  const sightings = (rows.length > 0 ? rows : [{}]).map((row): CallbackSighting => {
    const fields = {
      dlqId: '1-0',
      messageId: 'm1',
      url: 'https://a.example/x',
      failureCallbackInfo: { state: 'CALLBACK_INPROGRESS' },
      ...row,
    };
    const entry = toDlqEntry(fields, NOW);
    if (!entry) throw new Error('not an entry');
    return { entry, firstSeenAt: NOW - 100 * HOUR, lastSeenAt: NOW, snapshots: 600, episode: 'e' };
  });
  const tracked = { at: NOW, walks: 9, maxGap: 0, sightings, isPartial: false, reportsStates: true };
  const state = {
    status: () => ({ withdrawn: false, rounds: [{ round: 'full', success: true, stale: false }] }),
  };
  const priorities = new Set<string>();
  const known = new Map<string, Account>();
  function accountOf(name: string): Account {
    const made = {
      name,
      state: (collector: string) => (collector === 'dlq' ? state : undefined),
      dlqFacts: () => ({ tracked }),
      serviceClock: { largestSkew: () => 0 },
      at: (priority: string) => {
        priorities.add(priority);
        return {};
      },
    } as never as Account;
    const account = known.get(name) ?? made;
    known.set(name, account);
    return account;
  }
  function configOf(names: readonly string[], { mode = 'plan', more = '' } = {}): Config {
    const accounts = names.map(name => `{ name: ${name}, baseUrl: 'https://x.example', token: aaaaaaaa }`);
    const text = `
accounts: [${accounts.join(', ')}]
autoCancel:
  mode: ${mode}
  stopFile: ${stopFile}
  rules: [{ name: r, grace: 0s, match: { url: { prefix: ['https://'] } } }]
${more}`;
    return parseConfig(text, 'config.yaml', {}).config;
  }
  function create(config: Config): AutoCancelAccounts {
    const common = { store, clock, random: () => 0, log, tracer: createTestTracer(), journals: noJournals };
    const intervals = { act: 1000, orders: 1000 };
    const accounts = new AutoCancelAccounts(config, { ...common, alertStates: () => new Map(), intervals });
    afterThisTest(() => accounts.close());
    return accounts;
  }
  /** Applies a configuration as the supervisor does: accounts with an unchanged policy stay open. */
  async function reload({ accounts, opened: before }: Agent, config: Config): Promise<Agent> {
    const isKept = ({ own: { account }, policy }: OpenAutoCancel) =>
      config.accounts.some(({ name }) => name === account) && policyFor(config, account) === policy;
    for (const each of before.values()) if (!isKept(each)) await each.stop();
    accounts.use(config);
    const opened = new Map<string, OpenAutoCancel>();
    for (const { name } of config.accounts) {
      const last = before.get(name);
      const own = last && isKept(last) ? last : await accounts.open(accountOf(name), last);
      if (!own) throw new Error('it is off');
      opened.set(name, own);
    }
    return { accounts, opened };
  }
  /** Starts an agent, or applies another configuration to a running one. `more`: additional keys of the auto-cancel section. */
  async function start(names: readonly string[], before?: Agent, more = '') {
    const config = configOf(names, { more });
    const accounts = before?.accounts ?? create(config);
    const agent = await reload(before ?? { accounts, opened: new Map() }, config);
    if (!before) await accounts.start();
    const view = accounts.view();
    if (!view) throw new Error('it is off');
    return {
      ...agent,
      view,
      async act() {
        for (const { own, run } of agent.opened.values()) if (own.isUsed) await run(never);
      },
      async run() {
        await accounts.follow(never);
        await this.act();
      },
    };
  }
  const left = () =>
    log.lines.flatMap(({ fields, message }) =>
      message.endsWith('skipped') ? [(fields as { reason: string }).reason] : [],
    );
  return { store, log, stopFile, configOf, create, start, left, priorities };
}

describe('pauses for all accounts', () => {
  it('a pause also applies to accounts that are configured later, until auto-cancel is resumed', async () => {
    const { store, start, left } = setUp();
    await order(store, 'pause', 'incident');
    await start(['old']);
    const both = await start(['old', 'new']);
    await both.run();
    expect(left()).toEqual(['paused', 'paused']);
    expect(await readJournal(store, 'new')).toMatchObject([{ at: NOW, step: 'paused', by: 'ann', reason: 'incident' }]);
    await start(['old', 'new']);
    expect(await readJournal(store, 'new')).toHaveLength(1);
    await order(store, 'resume', 'over');
    await (await start(['old', 'new'])).run();
    expect((await readJournals(store, ['old', 'new'], 0)).filter(({ step }) => step === 'ended')).toHaveLength(2);
  });
});

it('an agent starts with a read-only store and obeys a pause that is not yet in the journal', async () => {
  const { store, start, left, log } = setUp();
  await order(store, 'pause', 'incident');
  const { commit } = store;
  const words = ['first', 'second'];
  const refuse = () => Promise.reject(new StoreError('full', 'the store', words.shift()));
  Object.assign(store, { commit: refuse });
  const agent = await start(['a']);
  const errors = () => log.lines.filter(({ level }) => level === 'error').map(({ message }) => message);
  expect(errors()).toEqual(['the pause state of auto-cancel could not be synchronized']);
  // A repeated error is not logged again.
  await agent.accounts.follow(never);
  expect(errors()).toHaveLength(1);
  await agent.act();
  expect([left(), await readJournal(store, 'a')]).toEqual([['paused'], []]);
  Object.assign(store, { commit });
  await agent.run();
  expect(left()).toEqual(['paused']);
  expect(await readJournal(store, 'a')).toMatchObject([{ at: NOW, step: 'paused', by: 'ann', reason: 'incident' }]);
});

it('auto-cancel reads with the priorities `look` and `action`', async () => {
  const { start, priorities } = setUp();
  await start(['a']);
  expect([...priorities].sort()).toEqual(['action', 'look']);
});

it('candidates are skipped while the stop file exists', async () => {
  const { stopFile, start, left, store } = setUp();
  writeFileSync(stopFile, '');
  const agent = await start(['a']);
  await agent.run();
  expect([left(), await readJournal(store, 'a')]).toEqual([['stop_file'], []]);
});

it('logs, journal and explanations omit credentials, query and fragment of URLs', async () => {
  const secret = 'https://user:PASSWORD@a.example/x?token=TOKEN#FRAGMENT';
  const { log, start, store } = setUp({ url: secret, workflowUrl: secret });
  const agent = await start(['a']);
  const { explain, journal } = agent.view;
  await agent.run();
  const outputs = [log.lines, await readJournal(store, 'a'), await journal(0), explain('1-0', undefined)];
  for (const each of outputs) {
    const text = JSON.stringify(each);
    expect(text).toContain('a.example/x');
    expect(text).not.toMatch(/user|PASSWORD|TOKEN|FRAGMENT/);
  }
});

it('the journal view contains the newest 10,000 lines of all accounts, oldest first', async () => {
  const { store, start } = setUp();
  const { journal } = (await start(['a', 'b'])).view;
  for (const name of ['a', 'b']) {
    const own = await openJournal(store, name);
    const line = (index: number) =>
      ({ at: NOW + index * 2 + Number(name === 'b'), step: 'paused', by: name, reason: 'r' }) as const;
    await own.append(Array.from({ length: 6000 }, (_, index) => line(index)));
  }
  const fresh = await start(['a', 'b']);
  expect(await journal(0)).toEqual([]);
  const lines = await fresh.view.journal(0);
  expect(lines.map(({ at }) => at - NOW)).toEqual(Array.from({ length: 10_000 }, (_, index) => index + 2000));
  expect(lines.at(-1)).toMatchObject({ account: 'b', step: 'paused' });
  expect(await fresh.view.journal(NOW + 11_999)).toHaveLength(1);
});

describe('configuration changes', () => {
  const accountsOf = ({ accounts }: AutoCancel) => accounts.map(({ account }) => account);
  function skipsOf({ opened }: Agent) {
    const { source } = opened.get('a') ?? {};
    source?.revision();
    return source
      ?.samples()
      .get('delivery_auto_cancel_skipped_total')
      ?.map(({ value }) => value);
  }

  it('a reload reuses accounts with unchanged settings, and keeps journal and counters when limits change', async () => {
    const { store, stopFile, start } = setUp();
    writeFileSync(stopFile, '');
    const first = await start(['a', 'b']);
    await first.run();
    expect(skipsOf(first)).toEqual([1]);
    const same = await start(['a'], first);
    expect(same.opened.get('a')).toBe(first.opened.get('a'));
    expect(accountsOf(same.view)).toEqual(['a']);

    const other = await start(['a'], same, '  limits: { perRun: 1 }\n');
    expect(other.opened.get('a')).not.toBe(first.opened.get('a'));
    expect(accountsOf(other.view)).toEqual(['a']);
    expect(skipsOf(other)).toEqual([1]);
    await order(store, 'pause', 'incident');
    await other.run();
    await order(store, 'resume', 'over');
    const last = await start(['a'], other, '  limits: { perRun: 2 }\n');
    await last.run();
    expect((await readJournal(store, 'a')).map(({ step }) => step)).toEqual(['paused', 'resumed']);
  });

  it('auto-cancel has no view while it is off, and applies an earlier pause when it is enabled', async () => {
    const { store, log, configOf, create, start } = setUp();
    await order(store, 'pause', 'incident');
    const off = configOf(['a'], { mode: 'off' });
    const accounts = create(off);
    await accounts.start();
    await accounts.follow(never);
    expect([accounts.view(), log.lines, await readJournal(store, 'a')]).toEqual([undefined, [], []]);
    const on = await start(['a'], { accounts, opened: new Map() });
    await on.run();
    expect(await readJournal(store, 'a')).toMatchObject([{ step: 'paused' }]);
    accounts.use(off);
    expect(accounts.view()).toBeUndefined();
  });

  it('a reload does not reset the limit per walk', async () => {
    const second = { dlqId: '2-0', messageId: 'm2', url: 'https://b.example/x' };
    const { store, start } = setUp({}, second);
    const first = await start(['a'], undefined, '  limits: { perRun: 1 }\n');
    await first.run();
    const other = await start(['a'], first, '  limits: { perRun: 1, perDay: 9 }\n');
    await other.run();
    expect(await readJournal(store, 'a')).toHaveLength(1);
  });

  it('a pause also applies to an account that replaces all paused accounts', async () => {
    const { store, start, left } = setUp();
    const first = await start(['before']);
    await order(store, 'pause', 'incident');
    await first.run();
    const second = await start(['after'], first);
    await second.run();
    expect(left()).toEqual(['paused', 'paused']);
    expect(await readJournal(store, 'after')).toMatchObject([{ step: 'paused', by: 'ann' }]);
    await order(store, 'resume', 'over');
    await second.run();
    const third = await start(['last'], second);
    await third.run();
    expect((await readJournal(store, 'last')).map(({ step }) => step)).toContain('ended');
  });

  it('a pause also applies to an account that was removed before the pause and is added back', async () => {
    const { store, start, left } = setUp();
    const both = await start(['stays', 'returns']);
    const one = await start(['stays'], both);
    await order(store, 'pause', 'incident');
    await one.run();
    const again = await start(['stays', 'returns'], one);
    await again.run();
    expect(left()).toEqual(['paused', 'paused']);
    expect(await readJournal(store, 'returns')).toMatchObject([{ step: 'paused', by: 'ann' }]);
  });
});
