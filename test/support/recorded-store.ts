/**
 * An agent and a service in simulated time. The store contains most kinds of rows, except message traces, operator commands,
 * requests in flight and rows of replicas.
 */
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { type AgentCore, openCore } from '../../src/agent/agent.ts';
import { createTracker } from '../../src/collectors/dlq/callback-tracker.ts';
import { openSqliteStore } from '../../src/store/sqlite.ts';
import { toDlqEntry } from '../../src/upstream/wire.ts';
import { emulateEmpty } from './emulate.ts';
import { serve } from './http-service.ts';
import { createManualClock, type ManualClock } from './manual-clock.ts';
import { parseExposition } from './parse-exposition.ts';
import { loadedFrom } from './view-scene.ts';

export const ACCOUNT = 'acme';
const [SECOND, MINUTE, HOUR] = [1000, 60_000, 3_600_000];
/** Intervals (ms). They are longer than the defaults, so that the simulation takes fewer steps. */
const INTERVALS = { act: 5 * SECOND, orders: 5 * SECOND, retry: 5 * SECOND };
const START = Date.UTC(2026, 0, 1, 12);

/**
 * Rows of an SQLite store by account and key, and the schema of the file. Contains no lists, so that a diff shows one row per
 * line.
 */
interface RecordedStore {
  readonly schema: { readonly application: number; readonly version: number; readonly table: string };
  readonly rows: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

/** Reads a closed SQLite store. */
export function readStore(path: string): RecordedStore {
  const db = new DatabaseSync(path, { readOnly: true });
  const pragma = (name: string) => Number(db.prepare(`PRAGMA ${name}`).get()?.[name]);
  const tables = db.prepare('SELECT sql FROM sqlite_schema ORDER BY name').all();
  const schema = {
    application: pragma('application_id'),
    version: pragma('user_version'),
    table: tables.map(({ sql }) => String(sql).replace(/\s+/g, ' ')).join('; '),
  };
  const rows: Record<string, Record<string, string>> = {};
  for (const row of db.prepare('SELECT account, key, value FROM rows ORDER BY account, key').all()) {
    const [account = '', key = '', value = ''] = Object.values(row).map(String);
    rows[account] = { ...rows[account], [key]: value };
  }
  db.close();
  return { schema, rows };
}

/** Creates an SQLite store with this schema and these rows. */
export function writeStore(path: string, { schema, rows }: RecordedStore): void {
  const db = new DatabaseSync(path);
  db.exec(schema.table);
  db.exec(`PRAGMA application_id = ${schema.application}; PRAGMA user_version = ${schema.version}`);
  const put = db.prepare('INSERT INTO rows (account, key, value) VALUES (?, ?, ?)');
  for (const [account, own] of Object.entries(rows)) {
    for (const [key, value] of Object.entries(own)) put.run(account, key, value);
  }
  db.close();
}

/**
 * Starts a service that has the same rows in each run. Recorded stores contain these rows: add only rows that change no
 * recorded counter.
 */
async function startService(clock: ManualClock) {
  const emulator = await emulateEmpty({ clock, token: 'view-token', dialect: { flowControlFields: 'all' } });
  const { state } = emulator;
  const addRun = (name: string, enteredAt: number) =>
    state.addFailedRun({ enteredAt, createdAt: enteredAt - MINUTE, workflowUrl: `https://${name}.example.com/run` });
  const stuck = addRun('stuck', START - 61 * HOUR);
  addRun('healthy', START - HOUR);
  const [removed = ''] = [500, 404, 500].map((responseStatus, index) => {
    const enteredAt = START - (index + 1) * MINUTE;
    return state.addDlqEntry({ createdAt: enteredAt - SECOND, enteredAt, responseStatus });
  });
  const message = { createdAt: START + SECOND, label: 'nightly', url: 'https://shop.example.com/' };
  for (const [index, each] of (['created', 'active', 'error', 'retry', 'active', 'delivered'] as const).entries())
    state.addEvent({ ...message, messageId: 'msg_delivered', state: each, time: START + (index + 1) * SECOND });
  state.addEvent({ ...message, messageId: 'msg_open', state: 'created', time: START + 2 * SECOND });
  state.setWaitlist('mail/send', 12);
  return {
    emulator,
    /**
     * Adds and removes dead letters. `isCancelled`: whether to also set the state of the failure callback that the agent
     * cancels.
     */
    change(isCancelled: boolean): void {
      state.addDlqEntry({ createdAt: START + SECOND, enteredAt: START + MINUTE, responseStatus: 500 });
      state.removeDlqEntry(removed);
      if (isCancelled) state.setCallback(stuck, 'CALLBACK_CANCELED');
    },
  };
}

/**
 * Starts an agent with the store at `path`. If `now` is later than the default, the agent continues a recorded store.
 * Otherwise, receivers other than `up` are unavailable.
 */
export async function startRecorded(path: string, now = START) {
  const clock = createManualClock(now);
  const { emulator, change } = await startService(clock);
  const isContinued = now > START;
  if (isContinued) change(true);
  /** Accepted notifications: the receiver, alert and start of each. */
  const accepted: string[] = [];
  const { url } = await serve(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    const isAccepted = isContinued || request.url === '/up';
    response.writeHead(isAccepted ? 200 : 503).end();
    const { alerts = [], dedup_key: key } = JSON.parse(body || '{}');
    if (isAccepted && key) accepted.push(`${request.url} ${key}`);
    for (const { labels, startsAt } of isAccepted ? alerts : [])
      accepted.push(`${request.url} ${labels.alertname} ${labels.account ?? ''} ${startsAt}`);
  });
  const webhook = (name: string, more: object = {}) => ({ name, webhook: { url: `${url}/${name}`, ...more } });
  const many = { perRun: 100, perHour: 100 };
  const config = loadedFrom({
    store: { kind: 'sqlite', path },
    accounts: [
      {
        name: ACCOUNT,
        baseUrl: emulator.url,
        token: 'view-token',
        actionToken: 'view-token',
        budget: { requestsPerSecond: 1000, burst: 1000 },
      },
    ],
    collect: {
      dlq: {
        every: '15s',
        rescanEvery: '30s',
        filters: [{ name: 'status-500', match: { responseStatus: 500 } }],
      },
      events: { destination: 'host' },
    },
    schedules: [{ name: 'nightly', match: { label: 'nightly' }, cron: '*/2 * * * *', grace: '1m' }],
    alerts: {
      enabled: true,
      rules: [
        { name: 'Any', when: { above: { metric: 'delivery_dlq_messages', value: 0 } } },
        { name: 'Long', when: { above: { metric: 'delivery_dlq_messages', value: 0 } }, for: '3h' },
      ],
      notifiers: [
        webhook('up', { groupWait: '0s' }),
        webhook('down'),
        webhook('pager', { format: 'pagerduty', secret: 'k' }),
      ],
    },
    heartbeat: { url: `${url}/up/beat`, every: '1m' },
    autoCancel: {
      mode: 'enforce',
      stopFile: `${path}.stop`,
      limits: { ...many, perDay: 100, spacing: '0s' },
      breaker: { candidates: { max: 100, percent: 100 } },
      rules: [
        {
          name: 'stuck',
          mode: 'enforce',
          expires: '2099-12-31',
          match: { workflowUrl: { prefix: ['https://stuck.example.com/'] } },
          grace: '0s',
          limits: many,
        },
      ],
    },
  });
  const core = await openCore(config, { env: {}, clock, random: () => 0, intervals: INTERVALS });
  core.start();
  return {
    clock,
    core,
    change,
    accepted,
    /** Advances time in steps of 5 s, for at most 20 minutes, until `attempt` does not throw. */
    async until<T>(attempt: () => Promise<T> | T): Promise<T> {
      for (let left = 240; ; left -= 1) {
        await clock.advance(5 * SECOND);
        // Requests and responses take real time.
        await sleep(20);
        try {
          return await attempt();
        } catch (error) {
          if (left === 0) throw error;
        }
      }
    },
  };
}

/** Creates a store in which the failure callbacks were in progress in every walk of the last 60 hours. */
export async function createTracked(path: string): Promise<void> {
  const { emulator } = await startService(createManualClock(START));
  const entries = emulator.state.dlqRows().flatMap(row => toDlqEntry(row, START) ?? []);
  const tracker = createTracker({ unreported: [], maxGap: 30 * MINUTE });
  for (let at = START - 60 * HOUR; at <= START; at += 10 * MINUTE)
    tracker.observe(
      entries.filter(({ enteredAt = 0 }) => enteredAt <= at),
      at,
    );
  const store = await openSqliteStore({ path });
  const changes = tracker.drainChanges().map(({ key, value }) => ({ key: `dlq/${key}`, value }));
  await store.commit(ACCOUNT, changes);
  // Use a fixed key instead of a random one.
  await store.create('agent/key', 'A'.repeat(43));
  await store.close();
}

/** Names of counters that are reset when the process restarts. */
const OF_PROCESS = /^delivery_(watch_|auto_cancel_skipped_)/;

/** Returns data of the agent's API: stored counters, alerts, failure callbacks, the journal and the history. */
export async function readVisible({ served }: AgentCore) {
  const { body } = await served.exposition('everything', 'text', false);
  const families = parseExposition(body.toString(), 'text');
  const counters: Record<string, number> = {};
  for (const { type, samples } of families) {
    for (const { name, labels, value } of type === 'counter' || type === 'histogram' ? samples : []) {
      const { account, ...others } = labels;
      if (account !== ACCOUNT || value === 0 || OF_PROCESS.test(name)) continue;
      counters[[name, ...Object.entries(others).flat()].join(' ')] = value;
    }
  }
  const account = served.views().account(ACCOUNT);
  const alerts = (account?.alerts ?? []).map(({ labels, state, startsAt = '' }) => [
    labels.alertname,
    `${state} ${startsAt}`,
  ]);
  const history = await served
    .views()
    .history(ACCOUNT, { family: ['delivery_dlq_messages'], over: '48h', points: 720 });
  const { accounts, candidates } = await served.views().autoCancel(ACCOUNT);
  const gauge = (wanted: string) => families.find(({ name }) => name === wanted)?.samples[0]?.value;
  return {
    counters,
    budget: gauge('delivery_watch_api_budget_remaining'),
    oldestInFlight: gauge('delivery_oldest_in_flight_timestamp_seconds'),
    tracked: Object.fromEntries(candidates.map(({ dlqId, firstSeenAt }) => [dlqId, firstSeenAt])),
    alerts: Object.fromEntries(alerts) as Record<string, string>,
    journal: await served.views().journal(0),
    paused: accounts[0]?.paused,
    history: Object.fromEntries(history?.times.map((time, index) => [time, history.series[0]?.values[index]]) ?? []),
  };
}
