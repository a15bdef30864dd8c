import { stat } from 'node:fs/promises';
import type { ProcessGroup, ReloadError } from '../http/served.ts';
import type { Clock } from '../kit/clock.ts';
import { MINUTE } from '../kit/duration.ts';
import { version } from '../kit/version.ts';
import type { NotificationCount } from '../metrics/alerting.ts';
import type { ProcessMetrics } from '../metrics/process.ts';
import type { AccountStatus } from '../model/status.ts';
import { HEARTBEAT, type NotifierOptions } from '../notify/options.ts';
import { AGENT_CHECKS } from '../rules/checks/agent.ts';
import { runChecks } from '../rules/checks/run.ts';
import type { ProblemState } from '../rules/problem-states.ts';
import type { StoreOptions } from '../store/options.ts';
import type { AgentView } from './api/agent.ts';
import { problemsOf } from './problems.ts';
import { iso, isoTime, orNull, sum } from './values.ts';

/** Result of the last reload. `at`: milliseconds since the Unix epoch. */
export interface LastReload {
  readonly at: number;
  /** One line for each changed section; empty if the reload was rejected. */
  readonly changed: readonly string[];
  /** Errors of a rejected reload; empty if it was accepted. */
  readonly faults: readonly ReloadError[];
}

interface AgentSettings {
  readonly store: StoreOptions;
  readonly alerts: { readonly notifiers: readonly NotifierOptions[] };
  readonly heartbeat: object | null;
  readonly server: { readonly lifecycle: boolean };
}

interface AgentDeps {
  readonly clock: Pick<Clock, 'now'>;
  readonly loaded: { readonly file: string; readonly hash: string; readonly config: AgentSettings };
  readonly printConfig: () => Promise<string>;
  readonly process: Pick<ProcessMetrics, 'startedAt' | 'configLoadedAt'>;
  readonly reloads: { readonly last: LastReload | undefined };
  readonly notified: NotificationLog;
  readonly accounts: readonly { status(): AccountStatus }[];
  readonly notifications: () => readonly NotificationCount[];
  /** Returns the states of the agent's problems. */
  readonly problemStates: () => readonly ProblemState[];
  /** Undefined if the store belongs to this process alone. */
  readonly group: Pick<ProcessGroup, 'leader' | 'unavailableSince'> | undefined;
}

const WINDOW = 15 * MINUTE;

const seriesOf = ({ notifier, outcome }: NotificationCount) => JSON.stringify([notifier, outcome]);

/** Notification counts of the last 15 minutes, recorded once a minute. */
export type NotificationLog = ReturnType<typeof createNotificationLog>;

export function createNotificationLog() {
  const before: { readonly at: number; readonly values: ReadonlyMap<string, number> }[] = [];
  return {
    /** Records the current counts. `notifications`: counts since the process started. */
    saw(notifications: readonly NotificationCount[], at: number): void {
      before.push({ at, values: new Map(notifications.map(each => [seriesOf(each), each.count])) });
      // Keep one point that is at least as old as the window.
      while ((before[1]?.at ?? at) <= at - WINDOW) before.shift();
    },
    /** Returns notification counts of the last 15 minutes; if the process started later, since its start. */
    lately(notifications: readonly NotificationCount[], at: number): readonly NotificationCount[] {
      const first = before.findLast(point => point.at <= at - WINDOW)?.values;
      return notifications.map(each => ({ ...each, count: each.count - (first?.get(seriesOf(each)) ?? 0) }));
    },
  };
}

/** Returns the size of an SQLite database, including its write-ahead log (bytes). */
async function bytesOf(path: string): Promise<number> {
  const files = await Promise.all(['', '-wal', '-shm'].map(end => stat(path + end).catch(() => undefined)));
  return sum(files.map(file => file?.size ?? 0));
}

async function storeOf({ store }: AgentSettings): Promise<AgentView['store']> {
  const { kind, path, history } = store;
  const isFile = kind === 'sqlite';
  return {
    kind,
    path: isFile ? path : null,
    bytes: isFile ? await bytesOf(path) : null,
    historyKeepSeconds: history.keep / 1000,
    historyMaxBytes: history.maxMB * 1_000_000,
  };
}

function notifiersOf({ alerts, heartbeat }: AgentSettings, counts: readonly NotificationCount[]) {
  const known = [
    ...alerts.notifiers.map(({ name, webhook }) => ({ name, kind: webhook?.format ?? 'alertmanager' })),
    ...(heartbeat ? [{ name: HEARTBEAT, kind: 'heartbeat' }] : []),
  ];
  return known.map(({ name, kind }) => {
    const own = counts.filter(({ notifier }) => notifier === name);
    return { name, kind, outcomes: Object.fromEntries(own.map(({ outcome, count }) => [outcome, count])) };
  });
}

function roundsOf(statuses: readonly AccountStatus[]): AgentView['rounds'] {
  const rounds = statuses.flatMap(({ collectors }) => collectors.flatMap(each => each.rounds));
  return {
    total: rounds.length,
    failing: rounds.filter(({ consecutiveFailures }) => consecutiveFailures > 0).length,
    stale: rounds.filter(({ stale }) => stale).length,
  };
}

export function createAgentView(deps: AgentDeps) {
  const { clock, loaded, process: own, reloads, notified, accounts, notifications } = deps;
  const { file, hash, config } = loaded;
  const statuses = () => accounts.map(account => account.status());
  let yaml: Promise<string> | undefined;

  const check = () =>
    runChecks(AGENT_CHECKS, {
      now: clock.now(),
      statuses: statuses(),
      notifications: notified.lately(notifications(), clock.now()),
      lastReload: reloads.last,
      databaseAway: deps.group?.unavailableSince(),
    });
  const problems = () => problemsOf(check(), null, { now: clock.now(), states: deps.problemStates() });

  function leaderOf(): AgentView['leader'] {
    const leader = deps.group?.leader();
    if (!leader) return null;
    const databaseAway = orNull(isoTime(deps.group?.unavailableSince()));
    return { url: leader.url, since: iso(leader.since), leaseSeconds: config.store.lease / 1000, databaseAway };
  }

  return {
    check,
    problems,
    /** Must be called once a minute. Never rejects. */
    logNotifications: async () => notified.saw(notifications(), clock.now()),
    async view(): Promise<AgentView> {
      yaml ??= deps.printConfig();
      const [text, store] = await Promise.all([yaml, storeOf(config)]);
      const { last } = reloads;
      return {
        now: iso(clock.now()),
        version,
        node: process.version,
        startedAt: iso(own.startedAt),
        residentBytes: process.memoryUsage.rss(),
        problems: problems(),
        config: { file, hash, loadedAt: iso(own.configLoadedAt()), yaml: text },
        lastReload: last ? { at: iso(last.at), changed: [...last.changed], faults: [...last.faults] } : null,
        store,
        leader: leaderOf(),
        notifiers: notifiersOf(config, notifications()),
        rounds: roundsOf(statuses()),
        lifecycle: config.server.lifecycle,
      };
    },
  };
}
