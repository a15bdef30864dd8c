import { beforeEach, describe, expect, it } from 'vitest';
import { ask } from '../../src/auto-cancel/command-asking.ts';
import {
  type CommandAccount,
  type CommandHandler,
  createCommandHandler,
} from '../../src/auto-cancel/command-handler.ts';
import type { Answer, Command } from '../../src/auto-cancel/commands.ts';
import { openJournal } from '../../src/auto-cancel/journal.ts';
import { NO_ACCOUNT } from '../../src/store/store.ts';
import { createSharedStore, type SharedStore } from '../support/fake-replicas.ts';
import { createManualClock, type ManualClock } from '../support/manual-clock.ts';
import { createTestLog } from '../support/silent.ts';

const CONFIGURED = ['a', 'b', 'c'];
const PAUSE: Command = { kind: 'pause', by: 'ann', reason: 'a bad night' };
const RESUME: Command = { kind: 'resume', by: 'bob', reason: 'it is day' };

interface TestReplica {
  readonly handler: CommandHandler;
  readonly accounts: CommandAccount[];
  holdsNone: boolean;
}

describe('commands to replicas', () => {
  let clock: ManualClock;
  let shared: SharedStore;
  let replicas: TestReplica[];
  let log: ReturnType<typeof createTestLog>;
  beforeEach(() => {
    clock = createManualClock();
    shared = createSharedStore(clock);
    replicas = [];
    log = createTestLog();
  });

  /** A replica that holds these accounts. */
  async function join(id: string, names: readonly string[], holdsNone: boolean): Promise<TestReplica> {
    const store = shared.join(id);
    for (const name of names) shared.place(name, id);
    await store.replicas.renew(names);
    const accounts: CommandAccount[] = [];
    for (const name of names) {
      const journal = await openJournal(store, name);
      accounts.push({ name, policy: 'p', journal, explain: dlqId => ({ account: name, dlqId }) as never });
    }
    const handler = createCommandHandler({
      store,
      accounts: () => [...accounts],
      shared: { configured: () => CONFIGURED, holdsNone: () => replica.holdsNone },
      clock,
      log,
    });
    const replica: TestReplica = { handler, accounts, holdsNone };
    replicas.push(replica);
    return replica;
  }

  /** Asks from outside, without waiting for the answer. */
  function asking(command: Command) {
    const state: { end?: Answer | 'no_agent' } = {};
    const { signal } = new AbortController();
    void ask(shared.rows, command, { waitMs: 5000, clock, signal }).then(end => {
      state.end = end;
    });
    return state;
  }
  async function serve(seconds = 1): Promise<void> {
    for (let second = 0; second < seconds; second += 1) {
      for (const { handler } of replicas) await handler.serve();
      await clock.advance(1000);
    }
  }
  async function told(command: Command, seconds = 4): Promise<Answer | 'no_agent' | undefined> {
    const asked = asking(command);
    await clock.advance(1);
    await serve(seconds);
    return asked.end;
  }
  const rows = async () => [...(await shared.rows.scan(NO_ACCOUNT, '')).keys()].sort();
  const paused = ({ accounts }: TestReplica) => accounts.map(({ journal }) => journal.state.paused?.by);
  const ready = ({ accounts, handler }: TestReplica) => accounts.map(({ name }) => handler.isReady(name));

  it('reach every account, and come back as one answer', async () => {
    const [one, two] = [await join('one', ['a'], false), await join('two', ['b', 'c'], true)];
    expect(await told(PAUSE)).toEqual({ ok: true, result: { accounts: CONFIGURED } });
    expect([paused(one), paused(two)]).toEqual([['ann'], ['ann', 'ann']]);
    const at = expect.any(Number);
    expect(await told(RESUME)).toEqual({
      ok: true,
      result: { accounts: CONFIGURED, before: { at, by: 'ann', reason: 'a bad night' } },
    });
    expect([paused(one), paused(two)]).toEqual([[undefined], [undefined, undefined]]);
    expect(await told({ kind: 'explain', dlqId: '1-0' })).toEqual({
      ok: true,
      result: CONFIGURED.map(account => ({ account, dlqId: '1-0' })),
    });
    expect(await told({ kind: 'explain', dlqId: '1-0', account: 'c' })).toEqual({
      ok: true,
      result: [{ account: 'c', dlqId: '1-0' }],
    });
    expect(await told({ kind: 'explain', dlqId: '1-0', account: 'x' })).toEqual({ ok: true, result: [] });
    expect(await rows()).toEqual([]);
  });

  it('say which accounts did not answer; whichever replica holds them next obeys before it acts', async () => {
    await join('one', ['a', 'b'], true);
    await serve();
    expect(await told(PAUSE, 6)).toEqual({ ok: true, result: { accounts: ['a', 'b'] }, missing: ['c'] });
    expect(await rows()).toEqual([
      expect.stringMatching(/^auto-cancel\/paused$/),
      expect.stringMatching(/^command\/.*\/c$/),
    ]);
    const two = await join('two', ['c'], false);
    expect(ready(two)).toEqual([false]);
    await serve(1);
    expect([paused(two), ready(two)]).toEqual([['ann'], [true]]);
    await clock.advance(3_600_001);
    await serve(1);
    expect(await rows()).toEqual(['auto-cancel/paused']);
  });

  it('an account that is added later is paused, too, until all are resumed', async () => {
    await join('one', ['a', 'b', 'c'], true);
    await told(PAUSE);
    const later = await join('two', ['d'], false);
    expect(ready(later)).toEqual([false]);
    await serve();
    expect([paused(later), ready(later)]).toEqual([['ann'], [true]]);
    await told(RESUME);
    const last = await join('three', ['e'], false);
    await serve();
    expect([paused(last), ready(last)]).toEqual([[undefined], [true]]);
  });

  it.each(['garbage', '{"at":1,"by":"ann","reason":"r","more":true}'])(
    'a pause that another version wrote, or that is damaged, is a pause until all are resumed: %s',
    async value => {
      await shared.rows.commit(NO_ACCOUNT, [{ key: 'auto-cancel/paused', value }]);
      const one = await join('one', ['a', 'b', 'c'], true);
      await serve();
      expect([paused(one), ready(one)]).toEqual([
        ['unknown', 'unknown', 'unknown'],
        [true, true, true],
      ]);
      await told(RESUME);
      expect([paused(one), await rows()]).toEqual([[undefined, undefined, undefined], []]);
    },
  );

  it('a pause holds every replica back from when it sees it, also while none does what is of no account', async () => {
    const one = await join('one', ['a', 'b', 'c'], false);
    await serve();
    expect(ready(one)).toEqual([true, true, true]);
    const asked = asking(PAUSE);
    await clock.advance(1);
    await serve();
    expect([ready(one), paused(one)]).toEqual([
      [false, false, false],
      [undefined, undefined, undefined],
    ]);
    one.holdsNone = true;
    await serve(2);
    expect([ready(one), paused(one)]).toEqual([
      [true, true, true],
      ['ann', 'ann', 'ann'],
    ]);
    expect(asked.end).toMatchObject({ ok: true });
  });

  it('are not obeyed again where a replica that was stopped while it told the accounts goes on', async () => {
    const one = await join('one', ['a', 'b', 'c'], true);
    const { commit } = shared.rows;
    let late: Parameters<typeof commit> | undefined;
    Object.assign(shared.rows, {
      commit: (...args: Parameters<typeof commit>) => {
        if (
          args[1].some(({ key }) => key.startsWith('asked/')) &&
          args[1].some(({ value }) => value?.includes('resume'))
        ) {
          late ??= args;
        }
        return commit(...args);
      },
    });
    await told(RESUME);
    await told(PAUSE);
    if (!late) throw new Error('the resume was not told to the accounts');
    const ofAccounts = late[1].filter(({ key }) => key.startsWith('command/'));
    await commit(late[0], ofAccounts);
    await serve(2);
    expect(paused(one)).toEqual(['ann', 'ann', 'ann']);
    expect((await rows()).filter(key => key.startsWith('command/'))).toEqual([]);
  });

  describe('an approval', () => {
    async function waits(replica: TestReplica, index: number, action: string, dlqId: string) {
      const { name, journal } = replica.accounts[index] as CommandAccount;
      const target = { account: name, id: dlqId, dlqId, episode: 'e' } as never;
      const until = clock.now() + 3_600_000;
      const line = { step: 'awaiting_approval', rule: 'r', mode: 'approve', policy: 'p', evidence: [] } as const;
      await journal.append([{ ...line, at: clock.now(), action, target, until }]);
    }
    const approve = (action: string) => told({ kind: 'approve', action, by: 'ann' }, 6);
    const approved = (replica: TestReplica) =>
      replica.accounts.flatMap(({ journal }) =>
        [...journal.state.actions.values()].flatMap(({ id, approvedBy }) => (approvedBy ? id : [])),
      );

    it('is of the one account that knows the action, by its beginning or its entry', async () => {
      const [one, two] = [await join('one', ['a'], true), await join('two', ['b', 'c'], false)];
      await waits(one, 0, 'action-a', '1-0');
      await waits(two, 1, 'deed-c', '2-0');
      expect(await approve('action')).toEqual({ ok: true, result: { account: 'a', action: 'action-a', rule: 'r' } });
      expect(await approve('2-0')).toEqual({ ok: true, result: { account: 'c', action: 'deed-c', rule: 'r' } });
      expect([approved(one), approved(two)]).toEqual([['action-a'], ['deed-c']]);
      expect(await approve('nothing')).toEqual({ ok: false, why: 'no action nothing waits for approval' });
      expect(await rows()).toEqual([]);
    });

    it('is refused where two accounts know such an action, or one that may did not answer', async () => {
      const [one, two] = [await join('one', ['a'], true), await join('two', ['b', 'c'], false)];
      await waits(one, 0, 'action-a', '1-0');
      await waits(two, 0, 'action-b', '1-0');
      const why = (name: string) => ({ ok: false, why: `2 actions begin with ${name}: give more characters` });
      expect(await approve('action')).toEqual(why('action'));
      expect(await approve('1-0')).toEqual(why('1-0'));
      replicas.pop();
      expect(await approve('action')).toEqual({ ok: false, why: 'no answer from the accounts b, c: try again' });
      expect([approved(one), approved(two)]).toEqual([[], []]);
      expect(await approve('action-a')).toMatchObject({ ok: true });
      expect(await rows()).toEqual([]);
    });
  });
});
