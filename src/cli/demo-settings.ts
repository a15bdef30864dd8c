import type { Emulator } from '../emulator/server.ts';

/** Seed of the emulator, chosen so that messages wait from the first minute on. */
export const DEMO_SEED = 3;

/** Speed at which a scenario's problem appears within two minutes. Default: 1. */
const SPEEDS: ReadonlyMap<string, number> = new Map([
  ['neglected', 60],
  ['dlq-growth', 60],
  ['stuck-callback', 900],
  ['flow-control-pileup', 30],
  ['redeliveries', 60],
  ['log-lag', 10],
  ['rate-limited', 10],
  ['schedule-missed', 10],
  ['schedule-paused', 10],
  ['schedule-deleted', 10],
  ['schedule-twice', 10],
  ['limit-overwritten', 10],
  ['outage', 10],
]);

export const demoSpeed = (scenario: string): number => SPEEDS.get(scenario) ?? 1;

/** Maximum number of events in the emulator. A fast demo would otherwise exhaust memory. */
export const DEMO_EVENTS = 60_000;

/** Returns the settings of the demo's account. The budget suffices at any speed. */
export const demoAccount = (
  name: string,
  scenario: string,
  { url, token, credentials }: Pick<Emulator, 'url' | 'token' | 'credentials'>,
) => ({
  name,
  baseUrl: url,
  token,
  budget: { requestsPerSecond: 50, burst: 50, concurrency: 8, requestsPerDay: 10_000_000 },
  retention: { dlq: '3d', events: '3h' },
  limits: { dlqSize: 20_000 },
  // Limits of the account's record take precedence over `limits`, which the other scenarios use.
  ...(scenario === 'quota-nearly-used' && {
    management: { baseUrl: url, ...credentials.login },
    paths: { account: '/v2/qstash/users' },
  }),
});

const real = (seconds: number, speed: number) => `${Math.round(seconds * speed * 1000)}ms`;

/** Returns the usual settings, with intervals of a few real seconds. */
const usual = (speed: number) => ({
  collect: {
    flowControl: { every: real(2, speed) },
    dlq: {
      every: real(5, speed),
      filters: [
        { name: 'emails', match: { queueName: 'emails' } },
        { name: 'status-500', match: { responseStatus: 500 } },
      ],
    },
    events: { every: real(5, speed), overlap: '5s', destination: 'host' },
    schedules: { every: real(10, speed) },
    routes: ['/users/:id', '/jobs/:name', '/api/*path'],
  },
  // At high speed, an interval takes milliseconds of real time, and a busy machine would make data stale.
  staleness: { markAfter: Math.min(1000, Math.max(3, Math.ceil(speed / 3))) },
  alerts: { enabled: true, evaluateEvery: real(5, speed) },
});

/** Returns a rule for the callbacks in the scenario `stuck-callback`. */
export const hungWorkflows = (limits: { readonly perRun: number; readonly perHour: number }) => ({
  name: 'app-workflows-hung',
  mode: 'enforce',
  expires: '9999-12-31',
  match: { workflowUrl: { prefix: ['https://app.example.com/'] } },
  stuckWhen: { inProgressFor: '8h', assumeMaxRetries: 4, snapshots: 8 },
  limits,
  cooldown: { perUrl: '0s' },
});

/** Returns settings that detect callbacks that have been stuck for hours. Cancels are only planned. */
function stuckCallback(speed: number) {
  const { collect, staleness, alerts } = usual(speed);
  return {
    alerts,
    collect: {
      ...collect,
      flowControl: { every: '30m' },
      dlq: { ...collect.dlq, every: '10m', rescanEvery: '30m' },
      events: { ...collect.events, every: '30m', window: '1h' },
      schedules: { every: '30m' },
    },
    staleness: { ...staleness, withdrawAtMost: '4h' },
    autoCancel: {
      mode: 'plan',
      limits: { perRun: 100, perHour: 1000, perDay: 1000 },
      rules: [hungWorkflows({ perRun: 100, perHour: 1000 })],
    },
  };
}

/** Returns the demo's settings, except server, log, store and accounts. */
export function demoSettings(scenario: string, speed: number) {
  if (scenario === 'stuck-callback') return stuckCallback(speed);
  const reports = { name: 'reports', match: { scheduleId: 'scd_7minutely' }, cron: '* * * * *' };
  return { ...usual(speed), schedules: [{ ...reports, grace: '59s', endsWithin: '5m' }] };
}
