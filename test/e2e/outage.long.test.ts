import { describe, expect, it } from 'vitest';
import type { Emulator } from '../../src/emulator/server.ts';
import type { AccountView } from '../../src/status/api/account.ts';
import { createAgent, unlimited } from '../support/agent.ts';
import { WITHOUT_OPTIONAL } from '../support/collect.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { atThisLoad, eventually } from '../support/eventually.ts';
import { serve } from '../support/http-service.ts';

/** Starts a webhook receiver that records each notification only once. */
async function startHook() {
  const notifications = new Map<unknown, string>();
  const service = await serve((request, response) => {
    let text = '';
    request.setEncoding('utf8').on('data', chunk => {
      text += chunk;
    });
    request.on('end', () => {
      const { status, labels } = JSON.parse(text).alerts[0];
      const { alertname, account, round = '' } = labels;
      notifications.set(request.headers['idempotency-key'], `${status} ${alertname} ${account} ${round}`.trim());
      response.end();
    });
  });
  return { url: `${service.url}/hook`, notifications: () => [...notifications.values()].sort() };
}

/** Creates an agent that can be restarted with the same store. */
function createWatching(accounts: Readonly<Record<string, Emulator>>, sections: object, token?: string) {
  const tokens = Object.entries(accounts).map(([name, emulator]) => [`TOKEN_${name}`, token ?? emulator.token]);
  const agent = createAgent(
    {
      accounts: Object.entries(accounts).map(([name, emulator]) => ({
        ...unlimited(name, emulator.url),
        token: { env: `TOKEN_${name}` },
      })),
      ...sections,
    },
    Object.fromEntries(tokens),
  );
  let before = '';
  return {
    start: agent.start,
    get: agent.get,
    async end(signal: NodeJS.Signals): Promise<void> {
      await agent.end(signal);
      before += agent.process.stderr();
    },
    says: (pattern: RegExp) => agent.process.says(pattern),
    /** Log of all processes so far. */
    log: () => before + agent.process.stderr(),
    async firing(): Promise<string[]> {
      const alerts: { state: string; labels: Record<string, string> }[] = JSON.parse(await agent.get('/api/v1/alerts'));
      return alerts
        .filter(({ state }) => state === 'firing')
        .map(({ labels: { alertname, account, round = '' } }) => `${alertname} ${account} ${round}`.trim())
        .sort();
    },
  };
}

/** Returns the value of a series in /metrics. Its labels must be in the same order as there. */
function valueIn(text: string, series: string): number | undefined {
  const line = text.split('\n').find(each => each.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length));
}

const failed = (text: string, account: string, outcome: string) =>
  valueIn(text, `delivery_watch_api_requests_total{account="${account}",endpoint="dlq",outcome="${outcome}"}`) ?? 0;

describe('outages with restarts', () => {
  it('an outage with restarts resolves no alert and repeats no notification until data returns', async () => {
    const [down, refusing, hook] = [await emulateEmpty(), await emulateEmpty(), await startHook()];
    const dlq = { labels: { account: 'down' } };
    const rules = [
      { name: 'Any', when: { above: { metric: 'delivery_dlq_messages', ...dlq, value: 0 } } },
      { name: 'Old', when: { age: { metric: 'delivery_dlq_oldest_entered_timestamp_seconds', ...dlq, above: '1h' } } },
      { name: 'Blind', when: { stale: { collector: 'dlq' } } },
      {
        name: 'Failing',
        when: { below: { metric: 'delivery_collector_success', labels: { collector: ['dlq'] }, value: 1 } },
      },
      { name: 'Refused', when: { above: { metric: 'delivery_token_rejected', value: 0 } } },
      { name: 'Down', when: { below: { metric: 'delivery_up', value: 1 } } },
    ];
    const agent = createWatching(
      { down, refusing },
      {
        // Data of a healthy collector must not become stale on a busy machine.
        collect: { dlq: { every: '1s', rescanEvery: '2s' } },
        staleness: { markAfter: Math.ceil(atThisLoad(3)), withdrawAfter: Math.ceil(atThisLoad(20)) },
        alerts: {
          enabled: true,
          builtin: null,
          evaluateEvery: '100ms',
          rules,
          notifiers: [{ name: 'hook', webhook: { url: hook.url, groupBy: ['...'], groupWait: '0s' } }],
        },
      },
    );
    const entry = down.state.addDlqEntry({ enteredAt: Date.now() - 2 * 3_600_000 });
    await agent.start();
    await eventually(async () => expect(await agent.firing()).toEqual(['Any down', 'Old down']));
    down.faults.add({ kind: 'status', status: 500 });
    refusing.faults.add({ kind: 'status', status: 401 });
    const firing = [
      'Any down',
      'Blind down full',
      'Blind down new',
      'Blind refusing full',
      'Blind refusing new',
      'Down down',
      'Down refusing',
      'Failing down full',
      'Failing down new',
      'Failing refusing full',
      'Failing refusing new',
      'Old down',
      'Refused refusing',
    ];
    const begun = firing.map(name => `firing ${name}`);
    await eventually(async () => {
      expect(await agent.firing()).toEqual(firing);
      expect(hook.notifications()).toEqual(expect.arrayContaining(begun));
    });
    const notifications = hook.notifications();
    const ends = () => agent.log().split('an alert is resolved').length;
    const endsBefore = ends();
    for (const signal of ['SIGKILL', 'SIGTERM', 'SIGKILL', 'SIGTERM'] as const) {
      await agent.end(signal);
      await agent.start();
      // Alerts keep firing, both before the new process sends its first request and after its requests have failed repeatedly.
      await eventually(async () => {
        expect(await agent.firing()).toEqual(firing);
        const text = await agent.get('/metrics');
        expect(valueIn(text, 'delivery_token_rejected{account="refusing"}')).toBe(1);
        expect(failed(text, 'down', 'server')).toBeGreaterThan(5);
      });
      expect(hook.notifications()).toEqual(notifications);
    }
    expect(ends()).toBe(endsBefore);
    down.faults.clear();
    refusing.faults.clear();
    // A new process retries a token that was rejected for its predecessor.
    await agent.end('SIGKILL');
    await agent.start();
    await eventually(async () => expect(await agent.firing()).toEqual(['Any down', 'Old down']));
    down.state.removeDlqEntry(entry);
    const ended = firing.map(name => `resolved ${name}`);
    await eventually(() => expect(hook.notifications()).toEqual(expect.arrayContaining(ended)));
  });

  it('an outage is reported even if no process runs long enough to detect stale data', async () => {
    const [emulator, hook] = [await emulateEmpty(), await startHook()];
    emulator.faults.add({ endpoint: 'GET /v2/dlq', kind: 'status', status: 500 });
    const agent = createWatching(
      { a: emulator },
      {
        collect: {
          dlq: { every: '5s', rescanEvery: '1h' },
          events: { enabled: false },
          flowControl: { enabled: false },
        },
        alerts: {
          enabled: true,
          builtin: null,
          evaluateEvery: '100ms',
          rules: [{ name: 'Blind', when: { stale: { collector: 'dlq', round: 'new' } }, for: '1s' }],
          notifiers: [{ name: 'hook', webhook: { url: hook.url, groupBy: ['...'], groupWait: '0s' } }],
        },
      },
    );
    await eventually(async () => {
      await agent.start();
      await agent.says(/collection failed/);
      await eventually(async () => expect(await agent.firing()).toEqual(['Blind a new']), 500).catch(() => undefined);
      await agent.end('SIGKILL');
      expect(hook.notifications()).toEqual(['firing Blind a new']);
    });
  });
});

describe('rounds before the first success', () => {
  it('with a token that was never valid, no round is reported as successful, whether it failed or is still waiting', async () => {
    const emulator = await emulateEmpty();
    const agent = createWatching(
      { a: emulator },
      {
        collect: { dlq: { every: '200ms' }, ...WITHOUT_OPTIONAL },
      },
      'wrong',
    );
    await agent.start();
    await eventually(async () => {
      const text = await agent.get('/metrics');
      expect(valueIn(text, 'delivery_token_rejected{account="a"}')).toBe(1);
      expect(valueIn(text, 'delivery_collector_success{account="a",collector="dlq",round="full"}')).toBe(0);
      expect(valueIn(text, 'delivery_collector_data_stale{account="a",collector="dlq",round="new"}')).toBe(1);
      expect(text).not.toMatch(/delivery_collector_(success|data_timestamp_seconds){[^}]*round="(new|sweep)"/);
      expect(valueIn(text, 'delivery_up{account="a"}')).toBe(0);
      expect(await agent.get('/')).toContain('<span class="tag">token rejected</span>');
      const { rounds } = JSON.parse(await agent.get('/api/v1/accounts/a')) as AccountView;
      expect(rounds.map(({ collector, round, state }) => `${collector} ${round}: ${state}`).sort()).toEqual([
        'account record: ok',
        'dlq full: failing',
        'dlq new: stale',
        'events sweep: waiting',
        'events tail: failing',
        'flow_control list: failing',
      ]);
    });
    const host = new URL(emulator.url).host;
    const lines = agent
      .log()
      .split('\n')
      .filter(line => /collection failed|rejects the token/.test(line));
    expect(lines.length).toBeGreaterThan(0);
    for (const line of lines) expect(JSON.parse(line)).toMatchObject({ account: 'a', host });
  });

  it('with a valid token, an account is healthy before its first sweep', async () => {
    const agent = createWatching({ a: await emulateEmpty() }, {});
    await agent.start();
    await eventually(async () => {
      const text = await agent.get('/metrics');
      expect(valueIn(text, 'delivery_up{account="a"}')).toBe(1);
      expect(valueIn(text, 'delivery_token_rejected{account="a"}')).toBe(0);
      expect(text).not.toMatch(/delivery_collector_success{[^}]*round="sweep"/);
      const { rounds } = JSON.parse(await agent.get('/api/v1/accounts/a')) as AccountView;
      expect(rounds.find(({ round }) => round === 'sweep')?.state).toMatch(/^(waiting|not_due)$/);
    });
  });
});
