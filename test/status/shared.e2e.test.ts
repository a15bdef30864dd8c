import type { IncomingMessage, ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import type { AgentCore } from '../../src/agent/agent.ts';
import { signIfPeer } from '../../src/http/gate.ts';
import { CHANGE } from '../../src/notify/outbox-rows.ts';
import { AccountView, ReducedAccountView } from '../../src/status/api/account.ts';
import { AgentView } from '../../src/status/api/agent.ts';
import { AutoCancelView } from '../../src/status/api/auto-cancel.ts';
import { Overview, OverviewQuery } from '../../src/status/api/overview.ts';
import { Status } from '../../src/status/api/status.ts';
import { STATUS_KEY } from '../../src/status/status-row.ts';
import { eventually } from '../support/eventually.ts';
import { openPort } from '../support/port.ts';
import { startTwoReplicas, type TwoReplicas } from '../support/two-replicas.ts';

const AUTO_CANCEL = {
  mode: 'plan',
  rules: [{ name: 'r', match: { workflowUrl: { prefix: ['https://a.example/'] } } }],
};
const ALL = OverviewQuery.parse({ sort: 'account' });
const overviewOf = async ({ served }: AgentCore) => Overview.parse(await served.overview(ALL));
const rowOf = async (core: AgentCore, account: string) => {
  const row = (await overviewOf(core)).rows.find(each => each.account === account);
  if (!row) throw new Error(`there is no row of ${account}`);
  return row;
};
async function viewOf({ served }: AgentCore, account: string): Promise<ReducedAccountView> {
  await served.replicas?.refresh();
  return ReducedAccountView.parse(served.account(account));
}

/** Starts two replicas and waits until both have read their accounts and each other's status rows. */
async function startKnown(config: object = {}): Promise<TwoReplicas> {
  const scene = await startTwoReplicas(config);
  for (let count = 0; count < 7; count += 1) scene.emulator.state.addDlqEntry({});
  await scene.until(async () => {
    for (const core of [scene.one, scene.two])
      for (const row of (await overviewOf(core)).rows) expect(row).toMatchObject({ deadLetters: 7, data: 'fresh' });
  });
  return scene;
}

describe('accounts owned by another replica', () => {
  it('an account of another replica is shown with its holder, the numbers of the holder and when they were reported', async () => {
    const { one, two, clock, until } = await startKnown();
    const [own, reported] = await until(async () => {
      const own = await rowOf(one, 'alpha');
      const reported = await rowOf(two, 'alpha');
      expect(reported.dataAt).toBe(own.dataAt);
      return [own, reported];
    }, 1);
    expect(own).toMatchObject({ replica: 'http://one.invalid', holder: 'one', asOf: null });
    const { asOf, ...rest } = reported;
    expect(rest).toEqual({ ...own, asOf: undefined });
    const age = clock.now() - Date.parse(asOf ?? '');
    expect(age).toBeGreaterThanOrEqual(0);
    // Status rows are saved every 15 s and read every 5 s.
    expect(age).toBeLessThanOrEqual(25_000);
    const reduced = await viewOf(two, 'alpha');
    expect(reduced).toMatchObject({
      ...{ complete: false, account: 'alpha', replica: 'http://one.invalid', holder: 'one', state: 'ok', up: true },
      deadLetters: { enabled: true, data: 'fresh', messages: 7, oldestEntered: own.oldestEntered },
      flowControl: { enabled: true, data: 'fresh', waiting: own.waiting },
      events: { enabled: true, data: 'fresh', inFlight: own.inFlight },
      omitted: { problems: 0, alerts: 0 },
    });
    expect(reduced.now).toBe(new Date(clock.now()).toISOString());
    expect(reduced.rounds.map(({ round, state }) => [round, state])).toContainEqual(['full', 'ok']);
    const complete = AccountView.parse(one.served.account('alpha'));
    expect(complete).toMatchObject({ complete: true, holder: 'one', asOf: null });
    expect(complete.deadLetters.newestEntries).toHaveLength(7);
  });

  it('accounts have no holder while the replica that acquired them fails to open them', async () => {
    const { two, shared, until } = await startKnown();
    await shared.rows.commit('alpha', [{ key: `${CHANGE}1`, value: '{' }]);
    shared.place('alpha', 'two');
    const nobody = { replica: null, holder: null, asOf: null };
    await until(async () => {
      expect(await rowOf(two, 'alpha')).toMatchObject({
        worst: { text: expect.stringContaining('opened') },
        ...nobody,
      });
    });
    expect(two.served.account('alpha')).toMatchObject({ up: false, ...nobody });
    expect(await rowOf(two, 'beta')).toMatchObject({ holder: 'two' });
  });

  it('accounts of another replica are included in the totals over all accounts', async () => {
    const { one, two } = await startKnown();
    for (const core of [one, two]) {
      expect(await overviewOf(core)).toMatchObject({
        state: 'ok',
        replicas: 2,
        accounts: { total: 2, up: 2 },
        deadLetters: 14,
      });
      expect(core.served.accounts).toEqual(['alpha', 'beta']);
    }
  });

  it('accounts of another replica have rounds, alerts and a history', async () => {
    const alerts = {
      enabled: true,
      evaluateEvery: '1s',
      rules: [{ name: 'Any', when: { above: { metric: 'delivery_dlq_messages', value: 0 } } }],
    };
    const { two, clock, until } = await startKnown({ alerts });
    await until(async () => {
      await two.served.replicas?.refresh();
      const firing = two.served.alerts().filter(({ state }) => state === 'firing');
      expect(firing.map(({ labels }) => labels.account).sort()).toEqual(['alpha', 'beta']);
      expect((await overviewOf(two)).alertsFiring).toBe(2);
      const query = { family: ['delivery_dlq_messages'], over: '1h', points: 100 };
      const history = await two.served.history('alpha', query);
      expect(history?.series[0]?.values.at(-1)).toBe(7);
    });
    const now = new Date(clock.now()).toISOString();
    const { accounts } = Status.parse(JSON.parse(JSON.stringify({ version: '1', now, accounts: two.served.status() })));
    const alpha = accounts.find(({ account }) => account === 'alpha');
    expect(alpha).toMatchObject({ up: true, replica: 'http://one.invalid' });
    expect(alpha?.asOf).toBeLessThanOrEqual(clock.now());
    expect(accounts.find(({ account }) => account === 'beta')).not.toHaveProperty('asOf');
  });

  it('a replica that acquires an account shows it as its own, and open pages are notified', async () => {
    const { one, two, shared, until } = await startKnown();
    const hasChanged = two.served.watch();
    hasChanged();
    expect(two.served.replicas?.placeOf('alpha')).toMatchObject({ isHere: false, holder: { id: 'one' } });
    shared.place('alpha', 'two');
    await until(() => expect(two.served.replicas?.placeOf('alpha').isHere).toBe(true), 1);
    expect(hasChanged()).toBe(true);
    expect(await rowOf(two, 'alpha')).toMatchObject({ replica: 'http://two.invalid', asOf: null });
    await until(async () => {
      expect(await rowOf(one, 'alpha')).toMatchObject({ replica: 'http://two.invalid', deadLetters: 7, state: 'ok' });
      expect(AgentView.parse(await two.served.agent()).replicas).toMatchObject({
        self: 'two',
        list: [
          { id: 'one', accounts: 0 },
          { id: 'two', accounts: 2 },
        ],
        holders: { alpha: 'two', beta: 'two' },
        unheld: [],
        lastHandOver: { gained: ['alpha'], lost: [] },
      });
    });
  });

  it('accounts become critical when they have had no holder for longer than the lease time', async () => {
    const { two, shared, clock, until } = await startKnown();
    shared.place('alpha', 'nobody');
    await until(() => expect(two.served.replicas?.placeOf('alpha').holder).toBeUndefined(), 1);
    expect(await rowOf(two, 'alpha')).toMatchObject({ replica: null, state: 'ok' });
    await clock.advance(16_000);
    const { state, problems, rows, accounts } = await overviewOf(two);
    expect(state).toBe('critical');
    expect(problems[0]).toMatchObject({
      account: 'alpha',
      kind: 'account_uncollected',
      severity: 'critical',
      runbook: 'DeliveryAccountUncollected',
      text: expect.stringMatching(/^Not collected by any replica: none holds it; the shown data is from [\d:]+ UTC\.$/),
    });
    expect(rows[0]).toMatchObject({ account: 'alpha', replica: null, data: 'stale', deadLetters: 7 });
    expect(accounts.up).toBe(1);
    const whole = await viewOf(two, 'alpha');
    expect(whole).toMatchObject({
      state: 'critical',
      up: false,
      replica: null,
      problems: [{ kind: 'account_uncollected' }],
    });
    expect(AgentView.parse(await two.served.agent()).replicas?.unheld).toEqual(['alpha']);
    // The scrape target remains the last holder, so that the scrape fails visibly.
    expect(two.served.replicas?.placeOf('alpha')).toMatchObject({ isHere: false, last: { id: 'one' } });
    await clock.advance(15 * 60_000);
    expect(await rowOf(two, 'alpha')).toMatchObject({ deadLetters: null, asOf: null, state: 'critical' });
  });

  it('accounts are not reported as uncollected while the database is unavailable; the database is reported instead', async () => {
    const { two, shared, clock, until } = await startKnown({ autoCancel: AUTO_CANCEL });
    shared.isUnavailable = true;
    await until(async () => expect((await overviewOf(two)).problems[0]).toMatchObject({ kind: 'database_away' }));
    expect(await viewOf(two, 'alpha')).toMatchObject({
      deadLetters: { enabled: true, messages: 7 },
      events: { enabled: true },
      flowControl: { enabled: true },
    });
    await clock.advance(180_000);
    const { problems, rows } = await overviewOf(two);
    expect(problems.map(({ kind }) => kind)).toEqual(['database_away']);
    expect(rows[0]).toMatchObject({ account: 'alpha', deadLetters: 7, replica: 'http://one.invalid' });
    expect(Date.parse(rows[0]?.asOf ?? '')).toBeLessThan(clock.now() - 180_000);
    expect((await two.served.agent()).replicas?.databaseAway).not.toBeNull();
    expect((await two.served.autoCancel(undefined)).journal).toEqual([]);
    shared.isUnavailable = false;
    await until(async () => expect((await overviewOf(two)).problems).toEqual([]));
  });

  it.each([
    ['damaged', '{'],
    ['of a newer version', JSON.stringify({ version: 2, at: 1 })],
    ['hostile', JSON.stringify({ version: 1, at: 1, row: { account: '<script>' } })],
  ])('accounts of another replica are shown as unreadable if their status row is %s', async (_, value) => {
    const { two, shared, until } = await startKnown();
    await until(async () => {
      await shared.rows.commit('alpha', [{ key: STATUS_KEY, value }]);
      expect(await rowOf(two, 'alpha')).toMatchObject({ state: 'warning', worst: { kind: 'not_shown' } });
    }, 1);
    expect(await viewOf(two, 'alpha')).toMatchObject({
      ...{ account: 'alpha', problems: [{ kind: 'not_shown' }], rounds: [], asOf: null },
      deadLetters: { enabled: true, data: 'not_read', messages: null },
    });
    expect(await rowOf(two, 'beta')).toMatchObject({ state: 'ok' });
  });

  it('accounts of another replica show the brakes, counts and journal of auto-cancel, but no candidates', async () => {
    const { emulator, one, two, until } = await startKnown({ autoCancel: AUTO_CANCEL });
    emulator.state.addDlqEntry({ failureCallbackInfo: { state: 'CALLBACK_INPROGRESS' } } as never);
    const view = await until(async () => {
      const view = AutoCancelView.parse(await two.served.autoCancel(undefined));
      expect(
        view.accounts.map(({ account, holder, asOf, tracked }) => [account, holder, asOf === null, tracked]),
      ).toEqual([
        ['beta', 'two', true, 1],
        ['alpha', 'one', false, 1],
      ]);
      return view;
    }, 60);
    expect(view.tracked).toBe(2);
    expect(view.candidates.map(({ account }) => account)).toEqual(['beta']);
    expect(view.rules).toMatchObject([{ name: 'r', mode: 'plan', candidates: 0 }]);
    await one.served.command({ kind: 'pause', by: 'ann', reason: 'r' }, new AbortController().signal);
    await until(async () => {
      const lines = (await two.served.journal(0)) as readonly { account: string; step: string }[];
      expect(lines.map(({ account, step }) => `${account} ${step}`).sort()).toEqual(['alpha paused', 'beta paused']);
    });
  });
});

describe('explanations for accounts of another replica', () => {
  const never = new AbortController().signal;

  /** Starts two replicas and a server that stands in for alpha's holder. `answer` responds to its requests. */
  async function startPeer(answer: (response: ServerResponse) => unknown) {
    const replicas = await startTwoReplicas({ autoCancel: AUTO_CANCEL });
    const requests: IncomingMessage[] = [];
    const url = await openPort((request, response) => {
      requests.push(request);
      signIfPeer(request, response, replicas.two.served.peerKey);
      answer(response);
    });
    replicas.shared.answersAt('one', url);
    await replicas.until(() => expect(replicas.two.served.replicas?.placeOf('alpha').holder?.url).toBe(url));
    const explain = (isSentOn = false, signal = never) =>
      replicas.two.served.explain('1-0', 'alpha', { isSentOn, signal });
    return { ...replicas, requests, explain };
  }

  it('an explanation is requested from the holder by a signed request that is marked as forwarded', async () => {
    const { explain, requests, two } = await startPeer(response => response.end('[{"account":"alpha"}]'));
    expect(await explain()).toEqual([{ account: 'alpha' }]);
    expect(requests.map(({ url }) => url)).toEqual(['/api/v1/explain?id=1-0&account=alpha&sentOn=1']);
    expect(requests.map(request => two.served.peerKey?.isSigned(request))).toEqual([true]);
  });

  it('an explanation is not requested from another replica for a forwarded request or for an account held here', async () => {
    const { explain, requests, two } = await startPeer(response => response.end('[]'));
    expect(await explain(true)).toEqual([]);
    expect(await two.served.explain('1-0', 'beta', { isSentOn: false, signal: never })).toEqual([]);
    expect(requests).toEqual([]);
  });

  it('an explanation is requested once from each other replica if no account is named', async () => {
    const { requests, two } = await startPeer(response => response.end('[{"account":"alpha"}]'));
    const explain = () => two.served.explain('1-0', undefined, { isSentOn: false, signal: never });
    expect(await explain()).toEqual([{ account: 'alpha' }]);
    expect(requests.map(({ url }) => url)).toEqual(['/api/v1/explain?id=1-0&sentOn=1']);
  });

  it('at most four explanations are requested from other replicas concurrently', async () => {
    const waiting: ServerResponse[] = [];
    const { explain, requests } = await startPeer(response => waiting.push(response));
    const asked = Array.from({ length: 4 }, () => explain());
    expect(await explain()).toBe('busy');
    await eventually(() => expect(waiting).toHaveLength(4));
    for (const response of waiting) response.end('[]');
    expect(await Promise.all(asked)).toEqual([[], [], [], []]);
    const last = explain();
    await eventually(() => expect(requests).toHaveLength(5));
    waiting.at(-1)?.end('[]');
    expect(await last).toEqual([]);
  });

  it('a request for an explanation is aborted when its client disconnects, which frees capacity for another', async () => {
    const { explain, requests } = await startPeer(() => undefined);
    const controller = new AbortController();
    const asked = Array.from({ length: 4 }, () => explain(false, controller.signal));
    await eventually(() => expect(requests).toHaveLength(4));
    controller.abort(new Error('gone'));
    for (const result of await Promise.allSettled(asked)) expect(result).toMatchObject({ status: 'rejected' });
    const next = new AbortController();
    const another = explain(false, next.signal);
    await eventually(() => expect(requests).toHaveLength(5));
    next.abort();
    await expect(another).rejects.toThrow();
  });

  it.each([500, 401, 307])(
    'a replica is reported as failed if it responds to a request for an explanation with status %d',
    async status => {
      const { explain } = await startPeer(response => Object.assign(response, { statusCode: status }).end());
      expect(await explain()).toBe('no_agent');
    },
  );
});
