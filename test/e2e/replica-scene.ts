import { type Agent, createAgent } from '../support/agent.ts';
import { createChance } from '../support/chance.ts';
import { afterThisTest } from '../support/client.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { type TrueEvent, truthOf } from '../support/event-truth.ts';
import { serve } from '../support/http-service.ts';
import type { Postgres } from '../support/postgres.ts';
import type { Isolation, Poll, ReceivedNotification } from '../support/replica-checks.ts';
import { type Passed, startServiceProxy } from '../support/service-proxy.ts';
import { cancelStuck } from '../support/stuck-rule.ts';
import { startTcpLink, type TcpLink } from '../support/tcp-link.ts';

export interface SceneOptions {
  readonly accounts: number;
  /** Lease and interval in seconds. */
  readonly lease: number;
  readonly every: number;
}

/** One agent process on the shared database. A restart, as by a supervisor after an exit, creates another one. */
export interface ReplicaProcess {
  readonly name: string;
  readonly agent: Agent;
  readonly link: TcpLink;
  isPaused: boolean;
  isEnded: boolean;
}

/** Size of a group of accounts, of which one has alerts and another has callbacks that get stuck. */
const ONE_IN = 5;
/** Number of dead letters at which an alert fires. */
const MANY = 20;
export const REQUESTS_PER_DAY = 1_000_000;
/** Maximum number of concurrent requests for an account. */
export const CONCURRENCY = 8;

/** Response time of the webhook receiver (ms), so that a replica may end while it waits for a response. */
const RESPONSE_AFTER = 500;

/** Starts a webhook receiver that records which replica sent each alert. */
async function startHook() {
  const received: ReceivedNotification[] = [];
  const service = await serve((request, response) => {
    let text = '';
    request.setEncoding('utf8').on('data', chunk => {
      text += chunk;
    });
    request.on('end', () => {
      const start = performance.now();
      const key = String(request.headers['idempotency-key']);
      const { alerts, externalURL } = JSON.parse(text);
      for (const { labels, status, startsAt } of alerts) {
        const { account, alertname: alert } = labels;
        received.push({ account, alert, status, startsAt, key, replica: new URL(externalURL).hostname, start });
      }
      setTimeout(() => response.end(), RESPONSE_AFTER);
    });
  });
  return { url: service.url, received };
}

function configOf(names: readonly string[], url: string, { lease, every }: SceneOptions) {
  const many = { perRun: 100, perHour: 1000 };
  return {
    store: { kind: 'postgres', url: { env: 'DATABASE_URL' }, lease: `${lease}s` },
    accounts: names.map((name, index) => ({
      name,
      baseUrl: url,
      token: { env: `TOKEN_${index}` },
      budget: { requestsPerSecond: 1000, burst: 1000, concurrency: CONCURRENCY, requestsPerDay: REQUESTS_PER_DAY },
      upstream: { proxy: { env: 'SERVICE_PROXY' }, timeout: `${Math.round(lease * 300)}ms` },
    })),
    collect: {
      flowControl: { enabled: false },
      dlq: { every: `${every}s`, rescanEvery: `${2 * every}s` },
      events: { every: `${every}s`, overlap: '3s', destination: 'route' },
      routes: ['/users/:id', '/jobs/:id'],
    },
    alerts: {
      enabled: true,
      builtin: null,
      evaluateEvery: '1s',
      rules: [{ name: 'Many', when: { above: { metric: 'delivery_dlq_messages', value: MANY - 1 } } }],
      notifiers: [{ name: 'hook', webhook: { url: { env: 'HOOK_URL' }, groupWait: '0s' } }],
    },
    autoCancel: cancelStuck(many, 1000, 100),
  };
}

const chance = createChance();
const upTo = (most: number) => chance.between(0, most - 1);

/** Returns the events of a message that is published at `start` and ends within 4 s. */
function life(messageId: string, start: number): TrueEvent[] {
  let time = start;
  const events: TrueEvent[] = [{ messageId, state: 'created', time }];
  const add = (state: string, wait: number, status?: number) => {
    time += wait;
    events.push({ messageId, state, time, status });
  };
  if (upTo(3) === 0) {
    add('active', 1 + upTo(300));
    add('error', upTo(500), 503);
    add('retry', 0);
  }
  add('active', 1 + upTo(800));
  if (upTo(8) === 0) {
    add('error', upTo(100), 500);
    add('failed', 0);
  } else add('delivered', upTo(2000), 200);
  return events;
}

const pathOf = (messageId: string) => (messageId.endsWith('0') ? '/jobs' : '/users');

/** Returns the isolation periods in a replica's log, on the clock of this process. */
function isolationsIn(replica: string, log: string): Isolation[] {
  const found: { replica: string; from: number; to: number }[] = [];
  for (const [line] of log.matchAll(/^.*"msg":"database (?:un)?available.*$/gm)) {
    const { time, msg } = JSON.parse(line) as { readonly time: string; readonly msg: string };
    const at = Date.parse(time) - performance.timeOrigin;
    const last = found.at(-1);
    if (msg.startsWith('database unavailable')) found.push({ replica, from: at, to: Number.POSITIVE_INFINITY });
    else if (last) last.to = at;
  }
  return found;
}

/**
 * Sets up processes with one configuration, a shared database, a service with recorded requests and an alert receiver.
 */
export async function setScene(postgres: Postgres, options: SceneOptions) {
  const { accounts: count, lease, every } = options;
  const emulator = await emulateEmpty({ accounts: count, dialect: { logDuplicates: 0.05, requestsPerSecond: 1000 } });
  const names = emulator.accounts.map((_, index) => `account-${index}`);
  const accountOf = new Map(emulator.accounts.map(({ token }, index) => [`Bearer ${token}`, names[index] ?? '']));
  const database = new URL(await postgres.createDatabase());
  const hook = await startHook();
  const config = configOf(names, emulator.url, options);
  const tokens = Object.fromEntries(emulator.accounts.map(({ token }, index) => [`TOKEN_${index}`, token]));
  const log: Passed[] = [];
  const replicas: ReplicaProcess[] = [];
  const truth = new Map<string, TrueEvent[]>(names.map(name => [name, []]));
  const alerting = emulator.accounts.filter((_, index) => index % ONE_IN === 1);
  const getStuck = emulator.accounts
    .map((account, index) => [names[index] ?? '', account] as const)
    .filter((_, index) => index % ONE_IN === 2);
  const letters = new Map<(typeof alerting)[number], string[]>();
  const stuck: string[] = [];
  /** Processes that ended by themselves, with their exit code or signal. */
  const exits: string[] = [];
  let isOver = false;
  afterThisTest(async () => {
    isOver = true;
  });

  async function startReplica(): Promise<ReplicaProcess> {
    const name = String.fromCharCode(97 + replicas.length);
    const link = await startTcpLink({ host: '127.0.0.1', port: postgres.port });
    const proxy = await startServiceProxy(name, emulator.listener, log);
    afterThisTest(async () => void (await Promise.all([link.close(), proxy.close()])));
    const url = new URL(database);
    url.port = String(link.port);
    const env = { DATABASE_URL: url.href, SERVICE_PROXY: proxy.url, HOOK_URL: hook.url };
    // Names the replica in notifications. All replicas need the same receivers: another address gets all firing alerts again.
    const server = { listen: '127.0.0.1:0', externalUrl: `http://${name}` };
    const agent = createAgent({ ...config, server }, { ...tokens, ...env });
    const replica = { name, agent, link, isPaused: false, isEnded: false };
    await replica.agent.start();
    replicas.push(replica);
    void replica.agent.process.ended.then(how => superviseEnd(replica, how));
    return replica;
  }

  /** Starts another process when one has exited with 1 because it has lost the lease. */
  async function superviseEnd(replica: ReplicaProcess, how: number | NodeJS.Signals): Promise<void> {
    if (replica.isEnded) return;
    Object.assign(replica, { isEnded: true });
    exits.push(`${replica.name} ${how}`);
    if (how === 1 && !isOver) await startReplica();
  }

  return {
    names,
    emulator,
    replicas,
    /** Alerts received by the webhook, with the replica that sent each one. */
    notifications: hook.received,
    truth,
    /** Stuck callbacks in the form `account dlqId`. */
    stuck,
    /** Stuck callbacks that the service has cancelled. */
    cancelled: () => getStuck.flatMap(([name, { state }]) => Object.keys(state.cancels()).map(id => `${name} ${id}`)),
    database: database.pathname.slice(1),
    startReplica,
    exits,
    async end(replica: ReplicaProcess, signal: NodeJS.Signals) {
      replica.isEnded = true;
      return replica.agent.end(signal);
    },
    async paused(replica: ReplicaProcess, during: () => Promise<unknown>) {
      replica.isPaused = true;
      replica.agent.process.kill('SIGSTOP');
      await during();
      replica.agent.process.kill('SIGCONT');
      replica.isPaused = false;
    },
    /** Replicas that are neither paused nor ended. */
    running: () => replicas.filter(({ isPaused, isEnded }) => !isPaused && !isEnded),
    /** Periods in which replicas logged that the database was unavailable. */
    isolations: (): Isolation[] => replicas.flatMap(({ name, agent }) => isolationsIn(name, agent.process.stderr())),
    /** Returns all requests to the service so far. Requests in flight are treated as ending now. */
    polls(): Poll[] {
      const now = performance.now();
      return log.map(({ by, authorization, end, ...rest }) => ({
        ...rest,
        replica: by,
        account: accountOf.get(authorization) ?? '',
        end: Math.min(end, now),
      }));
    },
    /** Adds messages to each account over the next `ms` milliseconds. */
    addTraffic(aSecond: number, ms: number) {
      const start = Date.now() + 500;
      for (const [index, name] of names.entries()) {
        const events = truth.get(name) ?? [];
        const known = events.length;
        for (let left = Math.round((aSecond * ms) / 1000); left > 0; left -= 1) {
          events.push(...life(`msg_${index}_${events.length}`, start + upTo(ms)));
        }
        const rows = events.slice(known).map(({ status, ...event }) => ({
          ...event,
          responseStatus: status,
          url: `https://api.example.com${pathOf(event.messageId)}/1`,
        }));
        emulator.accounts[index]?.state.addEvents(rows as never);
      }
      return start + ms;
    },
    /** Returns the expected account counters by series. */
    expected() {
      const counters = new Map<string, number>();
      for (const [account, all] of truth) {
        for (const [path, events] of Map.groupBy(all, each => pathOf(each.messageId))) {
          const { events: states, finished } = truthOf(events, 0);
          const labels = (key: string, value: string) =>
            `{account="${account}",${key}="${value}",destination="${path}/:id"}`;
          for (const [state, count] of Object.entries(states)) {
            counters.set(`delivery_events_total${labels('state', state)}`, count);
          }
          for (const [outcome, count] of Object.entries(finished)) {
            if (count > 0) counters.set(`delivery_messages_finished_total${labels('outcome', outcome)}`, count);
          }
        }
      }
      return counters;
    },
    /**
     * Fills or empties the queues of the accounts with alerts, and adds a stuck callback to others. Returns the
     * number of changed alerts.
     */
    stir(): number {
      for (const account of alerting) {
        const known = letters.get(account);
        if (known) for (const id of known) account.state.removeDlqEntry(id);
        letters[known ? 'delete' : 'set'](
          account,
          Array.from({ length: known ? 0 : MANY }, () => account.state.addDlqEntry()),
        );
      }
      for (const [name, { state }] of getStuck) {
        const workflowUrl = `https://stuck.example.com/${stuck.length}`;
        stuck.push(`${name} ${state.addFailedRun({ callbackRetries: 0, maxRetries: 0, workflowUrl })}`);
      }
      return alerting.length;
    },
    lease: lease * 1000,
    every: every * 1000,
  };
}

export type Scene = Awaited<ReturnType<typeof setScene>>;
