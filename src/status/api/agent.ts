import { z } from 'zod';
import { Maybe, Num, Problem, Seconds, Time } from './parts.ts';

/** An error in a configuration file. Lines and columns start at 1. */
export const ReloadErrorView = z.object({
  file: z.string(),
  line: z.int().optional(),
  column: z.int().optional(),
  message: z.string(),
});

export type ReloadErrorView = z.output<typeof ReloadErrorView>;

export const AgentView = z.object({
  now: Time,
  version: z.string(),
  node: z.string(),
  startedAt: Time,
  residentBytes: Num,
  problems: z.array(Problem).describe('Problems of the agent itself.'),
  config: z.object({
    file: z.string(),
    hash: z.string(),
    loadedAt: Time,
    yaml: z.string().describe('The configuration in use with every default, as YAML, secrets redacted.'),
  }),
  lastReload: Maybe(
    z.object({
      at: Time,
      changed: z.array(z.string()).describe('Changes of a successful reload.'),
      faults: z.array(ReloadErrorView).describe('Errors of a failed reload.'),
    }),
  ),
  store: z.object({
    kind: z.string(),
    path: Maybe(z.string()),
    bytes: Maybe(Num).describe('Size of its files.'),
    historyKeepSeconds: Seconds,
    historyMaxBytes: Num,
  }),
  leader: Maybe(
    z.object({
      url: z.string().describe('URL of this process, which leads, for standbys and Prometheus.'),
      since: Time,
      leaseSeconds: Seconds,
      databaseAway: Maybe(Time).describe('Start of the database outage.'),
    }),
  ).describe('Null if the store is not shared.'),
  notifiers: z.array(
    z.object({
      name: z.string(),
      kind: z.string(),
      outcomes: z.record(z.string(), Num).describe('Notifications since the process started.'),
    }),
  ),
  rounds: z.object({ total: z.int(), failing: z.int(), stale: z.int() }),
  lifecycle: z.boolean().describe('`server.lifecycle`: whether POST routes are enabled.'),
});
export type AgentView = z.output<typeof AgentView>;
