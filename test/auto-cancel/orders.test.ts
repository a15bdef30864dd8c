import { describe, expect, it } from 'vitest';
import { BRAKE, createBrake, pauseAutoCancel, resumeAutoCancel } from '../../src/auto-cancel/brake.ts';
import { openJournal, readJournal } from '../../src/auto-cancel/journal.ts';
import { createOrders, orderApproval, orderReset, resultOf } from '../../src/auto-cancel/orders.ts';
import { StoreError } from '../../src/store/errors.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { giveOrder, operatorClock } from '../support/operators.ts';
import { createTestLog } from '../support/silent.ts';

const ACCOUNTS = ['a', 'b', 'c'];
const RESET = { kind: 'reset-breaker', breaker: 'errors', by: 'bob', reason: 'fixed' } as const;

function setUp() {
  const store = createMemoryStore();
  const clock = createManualClock();
  const log = createTestLog();
  let policy = 'p';
  /** Creates a process that holds the leases of these accounts. */
  async function hold(names: readonly string[]) {
    const journals = await Promise.all(names.map(async name => ({ name, journal: await openJournal(store, name) })));
    const accounts = () => journals.map(each => ({ ...each, policy }));
    return createOrders({ store, accounts, clock, log });
  }
  const operator = (work?: () => Promise<unknown>) => ({
    store,
    accounts: ACCOUNTS,
    clock: operatorClock(clock, work),
    waitMs: 1000,
  });
  return {
    store,
    clock,
    log,
    hold,
    operator,
    setPolicy(next: string) {
      policy = next;
    },
    /** Places an order while these agents run. */
    give: (order: Parameters<typeof giveOrder>[0], ...agents: Awaited<ReturnType<typeof hold>>[]) =>
      giveOrder(
        order,
        operator(() => Promise.all(agents.map(agent => agent()))),
      ),
    async waits(account: string, action: string, dlqId: string, until = clock.now() + 3_600_000, rule = 'r') {
      const journal = await openJournal(store, account);
      const target = { account, id: dlqId, dlqId, episode: 'e' } as never;
      const line = { step: 'awaiting_approval', rule, mode: 'approve', policy: 'p', evidence: [] } as const;
      await journal.append([{ ...line, at: clock.now(), action, target, until }]);
    },
    async opens(account: string, at = clock.now()) {
      const line = { at, step: 'breaker_opened', breaker: 'errors', reason: '3 cancels failed' } as const;
      await (await openJournal(store, account)).append([line]);
    },
    approve: (action: string) => ({ kind: 'approve', action, by: 'ann' }) as const,
    lines: async (account: string) =>
      (await readJournal(store, account)).flatMap(line => ('order' in line ? [{ step: line.step, by: line.by }] : [])),
    orders: async () => [...(await store.scan('', 'auto-cancel/orders/'))],
  };
}

describe('approvals', () => {
  it('an approval by action id, by a prefix of that id or by dlqId is executed by the agent that runs the account', async () => {
    const { hold, give, approve, waits, lines, orders } = setUp();
    await waits('a', 'action-a', '1-0');
    await waits('c', 'deed-c', '2-0');
    const [one, two] = [await hold(['a']), await hold(['b', 'c'])];
    expect(await give(approve('action'), one, two)).toBe('obeyed');
    expect(await give(approve('2-0'), one, two)).toBe('obeyed');
    expect([await lines('a'), await lines('b'), await lines('c'), await orders()]).toEqual([
      [{ step: 'approved', by: 'ann' }],
      [],
      [{ step: 'approved', by: 'ann' }],
      [],
    ]);
  });

  it('an approval that matches no action, or more than one, is rejected and creates no order', async () => {
    const { give, approve, waits, orders } = setUp();
    await waits('a', 'action-a', '1-0');
    await waits('b', 'action-b', '1-0');
    expect(await give(approve('action'))).toBe('2 actions start with action: enter more characters');
    expect(await give(approve('1-0'))).toBe('2 actions start with 1-0: enter more characters');
    expect(await give(approve('actio'))).toBe(
      'no action actio waits for approval: enter its dlqId, or at least 6 characters of its id',
    );
    expect(await give(approve('action-x'))).toBe('no action action-x waits for approval');
    expect(await orders()).toEqual([]);
  });

  it('an approval names the pause and the open breakers that block the cancel', async () => {
    const { store, clock, operator, approve, waits, opens } = setUp();
    await waits('a', 'action-a', '1-0');
    await waits('b', 'action-b', '2-0');
    await opens('b');
    const holds = async (action: string) => {
      const found = await orderApproval(approve(action), operator());
      return 'why' in found ? found.why : found.holds;
    };
    const { signal } = new AbortController();
    const stop = { by: 'bob', reason: 'deploying\u001b[31m' };
    await createBrake(store, clock, createTestLog()).synchronize([]);
    expect([await holds('action-a'), await holds('action-b')]).toEqual([[], ['the breaker errors is reset']]);
    await pauseAutoCancel(store, stop, { clock, signal, waiting: () => undefined });
    const paused = expect.stringMatching(/^the pause ends \(by bob: deploying[^\u001b]*\)$/);
    expect([await holds('1-0'), await holds('2-0')]).toEqual([[paused], [paused, 'the breaker errors is reset']]);
    await resumeAutoCancel(store, stop, clock);
    expect(await holds('1-0')).toEqual([]);
    await store.commit('', [{ key: BRAKE, value: 'damaged' }]);
    expect(await holds('1-0')).toEqual([expect.stringContaining('unreadable')]);
  });

  it('an approval is rejected and journaled if the rules have changed since it was requested', async () => {
    const { hold, give, approve, waits, setPolicy, lines } = setUp();
    await waits('a', 'action-a', '1-0');
    const agent = await hold(['a']);
    setPolicy('other');
    expect(await give(approve('action-a'), agent)).toContain('the rules have changed');
    expect(await lines('a')).toEqual([{ step: 'order_refused', by: 'ann' }]);
  });

  it('an approval is rejected if another rule has requested approval since the order was placed', async () => {
    const { hold, store, clock, operator, approve, waits, lines } = setUp();
    await waits('a', 'action-a', '1-0');
    const found = await orderApproval(approve('action-a'), operator());
    if ('why' in found) throw new Error(found.why);
    await clock.advance(1);
    await waits('a', 'action-a', '1-0', undefined, 'another');
    await (await hold(['a']))();
    const { signal } = new AbortController();
    expect(await resultOf(found.placed, store, { ...operator(), signal })).toEqual({
      refused: 'approval has been requested again since',
    });
    expect(await lines('a')).toEqual([{ step: 'order_refused', by: 'ann' }]);
  });

  it('an approval is rejected if the action no longer waits for approval when the agent executes the order', async () => {
    const { hold, store, clock, operator, approve, waits } = setUp();
    await waits('a', 'action-a', '1-0');
    const found = await orderApproval(approve('action-a'), operator());
    if ('why' in found) throw new Error(found.why);
    await clock.advance(3_600_000);
    await (await hold(['a']))();
    const { signal } = new AbortController();
    expect(await resultOf(found.placed, store, { ...operator(), signal })).toEqual({
      refused: 'the action does not wait for approval',
    });
  });
});

describe('order results', () => {
  it('the result of an order is read from the end of the journal', async () => {
    const { hold, give, approve, waits, store, clock } = setUp();
    const cleared = { at: clock.now(), action: 'other', step: 'cleared', reason: 'x' } as const;
    await (await openJournal(store, 'a')).append(Array.from({ length: 500 }, () => cleared));
    await waits('a', 'action-a', '1-0');
    const agent = await hold(['a']);
    const { scan } = store;
    const read: number[] = [];
    Object.assign(store, {
      async scan(...what: Parameters<typeof scan>) {
        const rows = await scan(...what);
        if (what[0] === 'a') read.push(rows.size);
        return rows;
      },
    });
    expect(await give(approve('action-a'), agent)).toBe('obeyed');
    // The complete journal is read only once, to find the action.
    expect(read).toEqual([501, 3]);
  });
});

describe('breaker resets', () => {
  it('a breaker reset applies to every account in which the breaker is open', async () => {
    const { hold, give, opens, lines } = setUp();
    await opens('a');
    await opens('c');
    expect(await give(RESET, await hold(['a', 'b']), await hold(['c']))).toBe('obeyed');
    expect([await lines('a'), await lines('b'), await lines('c')]).toEqual([
      [{ step: 'breaker_reset', by: 'bob' }],
      [],
      [{ step: 'breaker_reset', by: 'bob' }],
    ]);
  });

  it('a breaker reset is rejected if the breaker has opened again since the order was placed', async () => {
    const { hold, store, clock, operator, opens } = setUp();
    await opens('a');
    const [reset] = await orderReset(RESET, operator());
    const other = await openJournal(store, 'a');
    await other.append([{ at: clock.now(), step: 'breaker_reset', breaker: 'errors', by: 'x', reason: 'x' }]);
    await clock.advance(1);
    await opens('a');
    await (await hold(['a']))();
    expect((await openJournal(store, 'a')).state.breakers.has('errors')).toBe(true);
    const { signal } = new AbortController();
    if (!reset) throw new Error('nothing was ordered');
    expect(await resultOf(reset.placed, store, { ...operator(), signal })).toEqual({
      refused: 'the breaker has opened again since',
    });
  });
});

describe('orders', () => {
  it('an order waits for the next agent if none is running', async () => {
    const { hold, give, opens, orders, lines, clock } = setUp();
    await opens('a');
    expect(await give(RESET)).toBe('waiting');
    expect(await orders()).toHaveLength(1);
    await clock.advance(7 * 86_400_000);
    await (await hold(['b']))();
    expect(await lines('a')).toEqual([]);
    await (await hold(['a']))();
    expect([await lines('a'), await orders()]).toEqual([[{ step: 'breaker_reset', by: 'bob' }], []]);
  });

  it('an order is executed only once even if the process dies before it deletes the row of the order', async () => {
    const { hold, give, opens, orders, lines, store } = setUp();
    await opens('a');
    await give(RESET);
    const [[key, value] = ['', '']] = await orders();
    const agent = await hold(['a']);
    await agent();
    await store.commit('', [{ key, value }]);
    await agent();
    await store.commit('', [{ key, value }]);
    await (await hold(['a']))();
    expect([await lines('a'), await orders()]).toEqual([[{ step: 'breaker_reset', by: 'bob' }], []]);
  });

  it('an order is executed only once even if its commit reports an error after storing the journal line', async () => {
    const { hold, give, opens, orders, lines, store } = setUp();
    await opens('a');
    const agent = await hold(['a']);
    await give(RESET);
    const { commit } = store;
    Object.assign(store, {
      async commit(...what: Parameters<typeof commit>) {
        await commit(...what);
        Object.assign(store, { commit });
        throw new StoreError('slow', 'the store');
      },
    });
    await expect(agent()).rejects.toMatchObject({ reason: 'slow' });
    await agent();
    expect([await lines('a'), await orders()]).toEqual([[{ step: 'breaker_reset', by: 'bob' }], []]);
  });

  it.each(['garbage', '{}', '{"kind":"cancel-all","at":1,"account":"a","by":"x"}'])(
    'an order that this version cannot parse is ignored and logged once: %s',
    async value => {
      const { hold, store, log, orders, opens, give } = setUp();
      await store.commit('', [{ key: 'auto-cancel/orders/x', value }]);
      await opens('a');
      const agent = await hold(['a']);
      await agent();
      expect(await give(RESET, agent)).toBe('obeyed');
      expect(log.lines.map(({ message }) => message)).toEqual([
        'ignored an operator command that this version cannot read',
        'operator command executed',
      ]);
      expect(await orders()).toHaveLength(1);
    },
  );

  it('an order is executed even if the order of another account fails', async () => {
    const { hold, give, opens, orders, lines, store } = setUp();
    for (const account of ['a', 'b', 'c']) await opens(account);
    const agent = await hold(['a', 'b', 'c']);
    await give(RESET);
    const { commit } = store;
    Object.assign(store, {
      commit: (...what: Parameters<typeof commit>) =>
        what[0] === 'c' ? commit(...what) : Promise.reject(new StoreError('full', 'the store')),
    });
    await expect(agent()).rejects.toMatchObject({ reason: 'full' });
    Object.assign(store, { commit });
    expect([await lines('a'), await lines('b'), await lines('c')]).toEqual([
      [],
      [],
      [{ step: 'breaker_reset', by: 'bob' }],
    ]);
    await agent();
    expect([(await lines('b')).length, (await lines('c')).length, await orders()]).toEqual([1, 1, []]);
  });

  it('an order with a blank operator name is not stored', async () => {
    const { operator, opens, orders } = setUp();
    await opens('a');
    await expect(orderReset({ ...RESET, by: ' ' }, operator())).rejects.toThrow(RangeError);
    expect(await orders()).toEqual([]);
  });
});
