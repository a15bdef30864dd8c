/** Configurations of the agent in model runs. Times are short, so that runs are short. */
import { parseConfig } from '../../src/config/load.ts';
import type { Config } from '../../src/config/schema.ts';
import { WITHOUT_OPTIONAL } from '../support/collect.ts';

export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
/** Start of the world (ms since the Unix epoch). */
export const START = Date.UTC(2026, 2, 1);
/** Text that every token, address, header and body contains. It must never occur in output. */
export const CANARY = 'canary-7f3a';
export const ACCOUNT = 'production';
/** Maximum duration of a callback that ends on its own (ms). It is shorter than the waiting time of every rule. */
export const MAX_HEALTHY = 8 * MINUTE;

const moment = (ms: number) => new Date(START + ms).toISOString();

const RULES = {
  jobs: 'mode: enforce, grace: 0s',
  patient: 'mode: enforce, grace: 5m',
  idle: 'mode: enforce, grace: 0s',
  ask: 'mode: approve, grace: 0s',
  askLater: 'mode: approve, grace: 5m',
  other: 'mode: approve, grace: 0s',
  plan: 'mode: plan, grace: 0s',
  short: `mode: enforce, grace: 0s`,
  closed: `mode: enforce, grace: 0s, windows: { deny: [{ from: '${moment(30 * MINUTE)}', to: '${moment(60 * MINUTE)}', reason: freeze }] }`,
  spaced: 'mode: enforce, grace: 0s, limits: { perRun: 1, perHour: 2 }, cooldown: { perUrl: 15m }',
  blind: 'mode: enforce, grace: 0s, evidence: blind, acceptUnverified: true',
} as const;
type RuleName = keyof typeof RULES;

const STUCK_WHEN = 'assumeMaxRetries: 2, assumeTimeout: 2m, pastRetryWindow: 1.5, maxGap: 10m';
/** Conditions that a callback can meet within three walks. They are used only with callbacks that never end on their own. */
const QUICKLY =
  'inProgressFor: 5m, snapshots: 2, assumeMaxRetries: 0, assumeTimeout: 1m, pastRetryWindow: 1.5, maxGap: 10m';

/**
 * Returns a rule with the name `name` and the settings of `as`, so that settings can change while the name stays the same.
 */
function rule(name: RuleName, as: RuleName = name): string {
  const expires = as === 'short' ? `'${moment(3 * HOUR)}'` : `'${moment(1000 * HOUR)}'`;
  const idle = as === 'idle' ? ', idleFor: 4m' : '';
  const time = as === 'blind' ? 'seenFor: 9m' : 'inProgressFor: 9m, snapshots: 3';
  const wide = as === 'spaced' ? '' : ', limits: { perRun: 10, perHour: 100 }, cooldown: { perUrl: 0s }';
  return `{ name: ${name}, expires: ${expires}, match: { label: { in: [job] } }, ${RULES[as]}${wide}, stuckWhen: { ${time}, ${STUCK_WHEN}${idle} } }`;
}

const WIDE = 'limits: { perRun: 10, perHour: 100, perDay: 200, spacing: 2s }';
const TIGHT = 'limits: { perRun: 2, perHour: 2, perDay: 3, spacing: 20s }';
const BREAKERS =
  'breaker: { candidates: { max: 8, percent: 100 }, errors: { max: 3, within: 15m }, lostRaces: { percent: 100, ofLast: 5 } }';

interface Policy {
  readonly mode?: 'off' | 'plan';
  readonly limits?: string;
  readonly rules: readonly string[];
  readonly more?: string;
}

/** Configurations of auto-cancel. */
const POLICIES: readonly Policy[] = [
  { rules: [rule('jobs')] },
  { rules: [rule('idle')] },
  { rules: [rule('patient')] },
  { rules: [rule('ask')] },
  { rules: [rule('other')] },
  { rules: [rule('ask', 'patient')] },
  { rules: [rule('askLater')] },
  { rules: [rule('jobs', 'ask'), rule('other', 'idle')] },
  { rules: [rule('idle')], limits: TIGHT },
  { rules: [rule('spaced')] },
  { rules: [rule('short')] },
  { rules: [rule('closed')] },
  { rules: [rule('jobs')], more: 'pauseWhileAlerts: [DlqHigh]' },
  { rules: [rule('plan'), rule('jobs')] },
  { rules: [rule('jobs')], mode: 'plan' },
  { rules: [rule('jobs')], mode: 'off' },
  { rules: [rule('blind')] },
];

/** Configurations of the collectors. */
const READING = [
  {
    budget: '{ requestsPerSecond: 50, burst: 50, concurrency: 4, requestsPerDay: 10000000 }',
    watch: '[]',
    lateSweep: '60s',
  },
  {
    budget: '{ requestsPerSecond: 50, burst: 50, concurrency: 1, requestsPerDay: 10000000 }',
    watch: '[tenant-0]',
    lateSweep: '20m',
  },
  {
    budget: '{ requestsPerSecond: 1, burst: 3, concurrency: 2, requestsPerDay: 200000 }',
    watch: '[]',
    lateSweep: '60s',
  },
] as const;

export const ALERTS = [
  { name: 'DlqHigh', kind: 'dlq', value: 6 },
  { name: 'FlowWaiting', kind: 'flow', value: 5 },
  { name: 'TokenRefused', kind: 'token', value: 0 },
  { name: 'DlqStale', kind: 'stale', value: 0 },
] as const;

export interface Settings {
  readonly policy: number;
  readonly reading: number;
  /** Whether callbacks count as stuck early, under the conditions in `QUICKLY`. */
  readonly isQuick?: boolean | undefined;
}

export const POLICY_COUNT = POLICIES.length;
export const READING_COUNT = READING.length;

function textOf({ policy, reading, isQuick }: Settings, stopFile: string): string {
  const { mode = 'enforce', limits = WIDE, rules, more = 'idFrom: dlqId' } = POLICIES[policy] as Policy;
  const { budget, watch, lateSweep } = READING[reading] as (typeof READING)[number];
  return `
accounts:
  - { name: ${ACCOUNT}, baseUrl: 'http://service.test', token: ${CANARY}-token, budget: ${budget}, retention: { dlq: 2h } }
store: { path: /nowhere/store.db }
collect:
  flowControl: { every: 8m, watch: ${watch}, watchEvery: 3m }
  dlq: { every: 3m, rescanEvery: 4m, filters: [{ name: errors, match: { responseStatus: 500 } }] }
${Object.keys(WITHOUT_OPTIONAL)
  .map(key => `  ${key}: { enabled: false }`)
  .join('\n')}
  events: { every: 4m, window: 10m, overlap: 60s, lateSweep: ${lateSweep} }
alerts:
  enabled: true
  builtin: null
  evaluateEvery: 2m
  rules:
    - { name: DlqHigh, when: { above: { metric: delivery_dlq_messages, value: 6 } } }
    - { name: FlowWaiting, when: { above: { metric: delivery_flow_control_waitlist_size, labels: { flow_control_key: tenant-0 }, value: 5 } } }
    - { name: TokenRefused, when: { above: { metric: delivery_token_rejected, value: 0 } } }
    - { name: DlqStale, when: { stale: { collector: dlq, round: full } } }
autoCancel:
  mode: ${mode}
  stopFile: '${stopFile}'
  ${limits}
  ${BREAKERS}
  ${more}
  rules:
${rules.map(each => `    - ${isQuick ? each.replace(/inProgressFor: 9m.*maxGap: 10m/, QUICKLY) : each}`).join('\n')}
`;
}

const known = new Map<string, Config>();

export function configOf(settings: Settings, stopFile: string): Config {
  const text = textOf(settings, stopFile);
  const config = known.get(text) ?? parseConfig(text, 'model.yaml', {}).config;
  known.set(text, config);
  return config;
}
