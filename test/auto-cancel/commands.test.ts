import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ask } from '../../src/auto-cancel/command-asking.ts';
import { createCommandHandler } from '../../src/auto-cancel/command-handler.ts';
import { type Answer, answerChanges, type Command, takeCommands } from '../../src/auto-cancel/commands.ts';
import { openJournal } from '../../src/auto-cancel/journal.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import { attachStore, openStore } from '../../src/store/open.ts';
import { NO_ACCOUNT, type Store } from '../../src/store/store.ts';
import { newFolder } from '../support/folder.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { createTestLog } from '../support/silent.ts';

const PAUSE: Command = { kind: 'pause', by: 'ann', reason: 'a bad night' };
const APPROVE: Command = { kind: 'approve', action: 'a1', by: 'ann' };
const EXPLAIN: Command = { kind: 'explain', dlqId: '1-0', account: 'production' };
const EVERY: readonly Command[] = [
  PAUSE,
  { kind: 'resume', by: 'bob', reason: 'it is day' },
  { kind: 'reset-breaker', breaker: 'lost_races', by: 'bob', reason: 'looked at' },
  APPROVE,
  EXPLAIN,
];

describe.each(['memory', 'sqlite'] as const)('commands through the %s store', kind => {
  let agent: Store;
  let asker: Store;
  let clock: ReturnType<typeof createManualClock>;
  let log: ReturnType<typeof createTestLog>;
  beforeEach(async () => {
    const options = { kind, path: join(newFolder(), 'rows.db') };
    agent = await openStore(options);
    asker = kind === 'memory' ? agent : await attachStore(options);
    clock = createManualClock();
    log = createTestLog();
  });
  afterEach(async () => {
    await asker.close();
    await agent.close();
  });

  /** Asks without waiting for the answer. */
  function asking(command: Command, signal = new AbortController().signal) {
    const state: { end?: Answer | 'no_agent'; error?: unknown } = {};
    ask(asker, command, { waitMs: 5000, clock, signal }).then(
      end => {
        state.end = end;
      },
      error => {
        state.error = error;
      },
    );
    return state;
  }
  const take = () => takeCommands(agent, { clock, log });
  async function answer(given: Answer): Promise<void> {
    const [taken] = await take();
    if (!taken) throw new Error('there is no command');
    await agent.commit(NO_ACCOUNT, [{ key: 'effect', value: 'x' }, ...answerChanges(taken, given, clock.now())]);
  }
  const rows = async () => [...(await agent.scan(NO_ACCOUNT, '')).keys()];
  const put = (key: string, value: string) => agent.commit(NO_ACCOUNT, [{ key, value }]);

  it.each(EVERY)('$kind arrives as it was given, and its answer comes back', async command => {
    const asked = asking(command);
    await clock.advance(1000);
    expect((await take()).map(taken => taken.command)).toEqual([command]);
    expect(asked).toEqual({});
    const given: Answer = { ok: true, result: { rules: [{ name: 'r', found: '3h' }] } };
    await answer(given);
    await clock.advance(100);
    expect(asked).toEqual({ end: given });
    expect(await rows()).toEqual(['effect']);
    expect(await take()).toEqual([]);
    expect(log.lines).toEqual([]);
  });

  it('a refusal comes back with its reason', async () => {
    const asked = asking(APPROVE);
    await clock.advance(100);
    await answer({ ok: false, why: 'there is no action a1' });
    await clock.advance(100);
    expect(asked.end).toEqual({ ok: false, why: 'there is no action a1' });
  });

  it('come in the order in which they were given', async () => {
    for (let number = 0; number < 12; number += 1) {
      asking({ ...PAUSE, by: String(number) });
      await clock.advance(1);
    }
    const taken = await take();
    expect(taken.map(({ command }) => 'by' in command && Number(command.by))).toEqual([...Array(12).keys()]);
    expect(taken.map(({ at }) => at)).toEqual(taken.map((_, n) => (taken[0]?.at ?? 0) + n));
  });

  it.each(EVERY.slice(0, 3))('$kind waits for the next agent when none answers', async command => {
    const asked = asking(command);
    await clock.advance(4900);
    expect(asked).toEqual({});
    await clock.advance(100);
    expect(asked.end).toBe('no_agent');
    await clock.advance(7 * 86_400_000);
    expect((await take()).map(taken => taken.command)).toEqual([command]);
    await answer({ ok: true });
    // Nobody fetches this answer.
    await clock.advance(3_600_000);
    await take();
    expect(await rows()).toHaveLength(2);
    await clock.advance(1);
    await take();
    expect(await rows()).toEqual(['effect']);
  });

  it.each([APPROVE, EXPLAIN])('$kind is withdrawn when no agent answers', async command => {
    const asked = asking(command);
    await clock.advance(5900);
    expect([asked, (await rows()).length]).toEqual([{}, 1]);
    await clock.advance(100);
    expect(asked.end).toBe('no_agent');
    expect(await rows()).toEqual([]);
    expect([await take(), log.lines]).toEqual([[], []]);
  });

  it('an approval that is taken in the last moment is answered, and taken no later', async () => {
    const asked = asking(APPROVE);
    await clock.advance(5000);
    const [taken] = await take();
    expect(taken?.command).toEqual(APPROVE);
    await clock.advance(900);
    if (taken) await agent.commit(NO_ACCOUNT, answerChanges(taken, { ok: true }, clock.now()));
    await clock.advance(100);
    expect(asked.end).toEqual({ ok: true });

    asking(APPROVE);
    await clock.advance(5001);
    expect(await take()).toEqual([]);
    expect(await rows()).toEqual([]);
    expect(log.lines).toEqual([
      { level: 'info', fields: { kind: 'approve' }, message: expect.stringContaining('expired') },
    ]);
  });

  it('an answer that comes while the question is withdrawn is not lost', async () => {
    const slow: Pick<Store, 'scan' | 'commit'> = {
      scan: (...args) => asker.scan(...args),
      async commit(account, changes) {
        if (changes.every(({ value }) => value === null) && (await take()).length > 0) await answer({ ok: true });
        return asker.commit(account, changes);
      },
    };
    const signal = new AbortController().signal;
    // Without patience it is withdrawn at once; with its clock set back the agent still takes it.
    const end = ask(slow, APPROVE, { waitMs: -1000, clock, signal });
    await clock.advance(0);
    expect(await end).toBe('no_agent');
    const late = { ...clock, now: () => clock.now() + 60_000 };
    expect(await ask(slow, APPROVE, { waitMs: -1000, clock: late, signal })).toEqual({ ok: true });
  });

  it('who stops asking withdraws what was not for later', async () => {
    const controller = new AbortController();
    const states = [asking(PAUSE, controller.signal), asking(APPROVE, controller.signal)];
    await clock.advance(200);
    expect(await rows()).toHaveLength(2);
    const reason = new Error('interrupted');
    controller.abort(reason);
    await clock.advance(0);
    for (const state of states) expect(state.error).toBe(reason);
    expect((await take()).map(({ command }) => command)).toEqual([PAUSE]);
  });

  it.each([
    'nonsense',
    '',
    'null',
    '[]',
    '{}',
    '{"at":1,"takeUntil":null}',
    JSON.stringify({ at: 1, takeUntil: null, command: { ...PAUSE, kind: 'cancel-all' } }),
    JSON.stringify({ at: 1, takeUntil: null, command: { ...PAUSE, more: 1 } }),
    JSON.stringify({ at: 1, takeUntil: null, command: { ...PAUSE, reason: ' ' } }),
    JSON.stringify({ at: '1', takeUntil: null, command: PAUSE }),
    JSON.stringify({
      at: 1,
      takeUntil: null,
      command: { kind: 'reset-breaker', breaker: 'all', by: 'x', reason: 'y' },
    }),
    `${'['.repeat(100_000)}${']'.repeat(100_000)}`,
  ])('a row that is no command (%#) is dropped with a line, and others are taken', async value => {
    await put('command/hostile', value);
    asking(PAUSE);
    await clock.advance(1);
    expect((await take()).map(({ command }) => command)).toEqual([PAUSE]);
    expect(log.lines).toEqual([
      {
        level: 'warn',
        fields: { bytes: value.length },
        message: expect.stringContaining('that this version does not know'),
      },
    ]);
    expect(await rows()).toHaveLength(1);
  });

  it.each(['nonsense', '{}', '{"at":1,"answer":{"ok":"yes"}}'])('an answer %s is none', async value => {
    await put('answer/hostile', value);
    await take();
    expect(await rows()).toEqual([]);
    const asked = asking(EXPLAIN);
    await clock.advance(1);
    const [taken] = await take();
    await put(`answer/${taken?.id}`, value);
    await clock.advance(100);
    expect(asked.end).toEqual({ ok: false, why: expect.stringContaining('another version') });
  });

  it('what no agent would take is not given', async () => {
    const blank = { ...PAUSE, reason: ' \n' };
    const options = { waitMs: 1, clock, signal: new AbortController().signal };
    await expect(ask(asker, blank, options)).rejects.toThrow(new RangeError('reason: must not be blank'));
    expect(await rows()).toEqual([]);
  });
});

it('a pause is of accounts, too, that are opened while the agent runs, and nothing is done in them before', async () => {
  const store = createMemoryStore();
  const open = async (name: string) => ({
    name,
    policy: 'p',
    journal: await openJournal(store, name),
    explain: () => undefined,
  });
  const accounts = [await open('a')];
  const handler = createCommandHandler({
    store,
    accounts: () => [...accounts],
    clock: createManualClock(),
    log: createTestLog(),
  });
  const ready = () => ['a', 'b'].filter(handler.isReady);
  expect(ready()).toEqual([]);
  await accounts[0]?.journal.append([{ at: 1, step: 'paused', by: 'ann', reason: 'r' }]);
  await handler.serve();
  accounts.push(await open('b'));
  expect(ready()).toEqual(['a']);
  await handler.serve();
  expect([ready(), accounts[1]?.journal.state.paused]).toEqual([['a', 'b'], { at: 1, by: 'ann', reason: 'r' }]);
});

it('an approval is of what was asked by the rules in force, and refused where others asked', async () => {
  const store = createMemoryStore();
  const clock = createManualClock();
  const log = createTestLog();
  const journal = await openJournal(store, 'a');
  const target = { account: 'a', dlqId: 'd1', evidence: 'reported' } as never;
  const until = clock.now() + 60_000;
  await journal.append([
    {
      at: 1,
      step: 'awaiting_approval',
      action: 'action-1',
      rule: 'r',
      mode: 'approve',
      policy: 'old',
      target,
      until,
      evidence: [],
    },
  ]);
  async function approve(policy: string) {
    const accounts = () => [{ name: 'a', policy, journal, explain: () => undefined }];
    const handler = createCommandHandler({ store, accounts, clock, log });
    const options = { waitMs: 10_000, clock, signal: new AbortController().signal };
    const answer = ask(store, { kind: 'approve', action: 'd1', by: 'ann' }, options);
    await clock.advance(1);
    await handler.serve();
    await clock.advance(1000);
    return answer;
  }
  expect(await approve('new')).toEqual({
    ok: false,
    why: 'the rules have changed since approval of d1 was requested; the agent requests it again if the callback is still stuck',
  });
  expect(journal.state.actions.get('action-1')?.approvedBy).toBeUndefined();
  expect(await approve('old')).toMatchObject({ ok: true });
  expect(journal.state.actions.get('action-1')?.approvedBy).toBe('ann');
  expect(log.lines).toMatchObject([
    { message: 'operator command refused', fields: { action: 'd1', why: expect.stringContaining('have changed') } },
    { message: 'operator command executed', fields: { action: 'd1' } },
  ]);
});
