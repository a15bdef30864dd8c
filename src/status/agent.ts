import { stat } from 'node:fs/promises';
import type { ReloadFault } from '../http/served.ts';
import type { Clock } from '../kit/clock.ts';
import type { NotificationCount } from '../metrics/alerting.ts';
import type { ProcessMetrics } from '../metrics/process.ts';
import type { AccountStatus } from '../model/status.ts';
import { HEARTBEAT, type NotifierOptions } from '../notify/options.ts';
import type { StoreOptions } from '../store/options.ts';
import type { AgentView } from './api/agent.ts';
import type { Problem } from './api/parts.ts';
import type { Views } from './served.ts';
import { iso } from './values.ts';

/** What came of the last reload. `at`: milliseconds since the Unix epoch. */
export interface LastReload {
  readonly at: number;
  /** By the words of the configuration; empty where it was refused. */
  readonly changed: readonly string[];
  /** Why it was refused; empty where it was not. */
  readonly faults: readonly ReloadFault[];
}

/** The sections of the configuration that are shown. */
interface AgentSettings {
  readonly store: StoreOptions;
  readonly alerts: { readonly notifiers: readonly NotifierOptions[] };
  readonly heartbeat: object | null;
  readonly server: { readonly lifecycle: boolean };
}

export interface AgentViewDeps {
  readonly version: string;
  readonly clock: Pick<Clock, 'now'>;
  readonly loaded: { readonly file: string; readonly hash: string; readonly config: AgentSettings };
  /** Prints the configuration as YAML, without secrets. */
  readonly printConfig: () => Promise<string>;
  readonly process: Pick<ProcessMetrics, 'startedAt' | 'configLoadedAt'>;
  readonly lastReload: () => LastReload | undefined;
  readonly statuses: () => readonly AccountStatus[];
  /** Notifications since the process began. */
  readonly notifications: () => readonly NotificationCount[];
  /** Of the agent itself. */
  readonly problems: () => readonly Problem[];
}

/** Bytes of a store's files: of the database, and of what SQLite keeps beside it. */
async function bytesOf(path: string): Promise<number> {
  const files = ['', '-wal', '-shm'].map(end => stat(path + end).catch(() => undefined));
  return (await Promise.all(files)).reduce((sum, file) => sum + (file?.size ?? 0), 0);
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

function notifiersOf(
  { alerts, heartbeat }: AgentSettings,
  counts: readonly NotificationCount[],
): AgentView['notifiers'] {
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

/** What is shown of the agent itself. The configuration is printed when it is asked for the first time. */
export function createAgentView(deps: AgentViewDeps): Views['agent'] {
  const { version, clock, loaded, process: own, lastReload, statuses, notifications, problems } = deps;
  const { file, hash, config } = loaded;
  let yaml: Promise<string> | undefined;
  return async () => {
    yaml ??= deps.printConfig();
    const [text, store] = await Promise.all([yaml, storeOf(config)]);
    const last = lastReload();
    return {
      now: iso(clock.now()),
      version,
      node: process.version,
      startedAt: iso(own.startedAt),
      residentBytes: process.memoryUsage.rss(),
      problems: [...problems()],
      config: {
        file,
        hash,
        loadedAt: iso(own.configLoadedAt()),
        yaml: text,
      },
      lastReload: last ? { at: iso(last.at), changed: [...last.changed], faults: [...last.faults] } : null,
      store,
      replicas: null,
      notifiers: notifiersOf(config, notifications()),
      rounds: roundsOf(statuses()),
      lifecycle: config.server.lifecycle,
    };
  };
}
