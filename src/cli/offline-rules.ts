import { evaluate } from '../auto-cancel/evaluate.ts';
import { trackingOf } from '../auto-cancel/tracking.ts';
import { createTracker } from '../collectors/dlq/callback-tracker.ts';
import { ConfigError } from '../config/load.ts';
import type { RuleCase } from '../config/rule-cases.ts';
import type { Config } from '../config/schema.ts';
import { formatDuration } from '../kit/duration.ts';
import type { RuleFinding } from '../model/finding.ts';
import type { DlqEntry } from '../model/message.ts';
import { alertFamilies } from '../rules/families.ts';
import { prometheusRules } from '../rules/promql.ts';
import { toDlqEntry } from '../upstream/wire.ts';

type Expected = RuleCase['expect'][number];

const RESCAN_EVERY = 600_000;

function rulesOf({ autoCancel, account, rescanEvery, error }: RuleCase, config: Config | undefined) {
  const { rules, idFrom } = autoCancel ?? config?.autoCancel ?? { rules: [], idFrom: 'dlqId' as const };
  if (rules.length === 0) {
    throw new ConfigError([error([], 'there is no rule to test: add autoCancel.rules here, or use --config')]);
  }
  if (account !== undefined && config && !config.accounts.some(({ name }) => name === account)) {
    throw new ConfigError([error(['account'], `the configuration has no account ${account}`)]);
  }
  const collect = config?.accounts.find(({ name }) => account === undefined || name === account)?.collect;
  const configured = collect?.dlq.rescanEvery;
  return {
    idFrom,
    rescanEvery: rescanEvery ?? configured ?? RESCAN_EVERY,
    rules: rules.filter(({ accounts }) => account === undefined || accounts === null || accounts.includes(account)),
  };
}

function readRows({ snapshots, walks, error }: RuleCase): DlqEntry[][] {
  return snapshots.map(({ dlq }, snapshot) => {
    const now = walks.findLast(walk => walk.snapshot === snapshot)?.at ?? 0;
    return dlq.map((row, number) => {
      const entry = toDlqEntry(row, now);
      if (entry) return entry;
      throw new ConfigError([error(['snapshots', snapshot, 'dlq', number], 'must have a dlqId or a messageId')]);
    });
  });
}

/** Returns the time of the newest event (up to `at`) of the entry's message or callback; undefined without an event log. */
function lastEventAt({ events }: RuleCase, { messageId, callbackMessageId }: DlqEntry, at: number) {
  if (!events) return undefined;
  const times = events
    .filter(event => event.at <= at && [messageId, callbackMessageId].includes(event.messageId))
    .map(event => event.at);
  return times.length === 0 ? ('none' as const) : times.reduce((newest, time) => Math.max(newest, time));
}

export type RuleCheck = ReturnType<typeof toCheck>;

function toCheck(expected: Expected, finding: RuleFinding | undefined) {
  const verdict: Expected['verdict'] = finding?.verdict ?? 'not_listed';
  const isReason = expected.reason === undefined || expected.reason === finding?.reason;
  return { expected, verdict, finding, isAsExpected: expected.verdict === verdict && isReason };
}

/**
 * Replays a case as the agent would, and evaluates each expectation at its time. Throws ConfigError for an inconsistent case.
 */
export function testRules(ruleCase: RuleCase, config: Config | undefined): RuleCheck[] {
  const { rules, idFrom, rescanEvery } = rulesOf(ruleCase, config);
  const rows = readRows(ruleCase);
  const tracker = createTracker(trackingOf(rules, rescanEvery));
  const isComplete = (snapshot: number) =>
    ruleCase.snapshots[snapshot]?.complete && !rows[snapshot]?.some(({ isIncomplete }) => isIncomplete);
  const walks = ruleCase.walks.filter(({ snapshot }) => isComplete(snapshot));
  let next = 0;
  let listed: readonly DlqEntry[] = [];

  function check(expected: Expected, index: number): RuleCheck {
    for (; (walks[next]?.at ?? Infinity) <= expected.at; next++) {
      const { at, snapshot } = walks[next] as (typeof walks)[number];
      listed = rows[snapshot] ?? [];
      tracker.observe(listed, at);
    }
    const rule = rules.find(({ name }) => name === expected.rule);
    if (!rule) {
      const message = `there is no rule ${expected.rule}; available: ${rules.map(({ name }) => name).join(', ')}`;
      throw new ConfigError([ruleCase.error(['expect', index, 'rule'], message)]);
    }
    const entry = listed.find(({ id }) => id === expected.dlqId);
    if (!entry) return toCheck(expected, undefined);
    const lastWalk = tracker.facts()?.at ?? expected.at;
    // An untracked entry was never in progress. The rule still reports why it skips the entry.
    const sighting = tracker.facts()?.sightings.find(({ entry: { id } }) => id === entry.id) ?? {
      entry,
      firstSeenAt: lastWalk,
      lastSeenAt: lastWalk,
      snapshots: 1,
      episode: '',
    };
    const { at } = expected;
    const seen = { sighting, id: entry[idFrom], lastEventAt: lastEventAt(ruleCase, sighting.entry, at), askedAt: at };
    return toCheck(expected, evaluate(rule, seen));
  }

  const checks = [...ruleCase.expect.entries()]
    .sort(([, a], [, b]) => a.at - b.at)
    .map(([index, expected]) => ({ index, check: check(expected, index) }));
  return checks.sort((a, b) => a.index - b.index).map(({ check }) => check);
}

/** Converts configured alerts to rules for Prometheus 2.42 and newer. */
export const configuredAlerts = ({ alerts: { rules, evaluateEvery } }: Pick<Config, 'alerts'>) => ({
  interval: formatDuration(evaluateEvery),
  rules: prometheusRules(rules, metric => alertFamilies.get(metric)?.family ?? { name: metric, labels: [] }),
});
