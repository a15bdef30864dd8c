import { seriesDropped } from '../src/collectors/cap.ts';
import { accountPlan, collectors } from '../src/collectors/index.ts';
import { alertingFamilies } from '../src/metrics/alerting.ts';
import { autoCancelFamilies } from '../src/metrics/auto-cancel.ts';
import type { Family } from '../src/metrics/family.ts';
import { leaderFamilies } from '../src/metrics/leader.ts';
import { objectiveFamilies } from '../src/metrics/objectives.ts';
import { accountInfoFamily, ownFamilies } from '../src/metrics/own.ts';
import { agentFamilies } from './queries.ts';

/** Introductions to the tables of the collectors. */
const COLLECTORS: Readonly<Record<string, string>> = {
  flow_control:
    '[collectors.md](collectors.md#flow-control) explains the states. Limits, usage and pauses are exposed if the service reports them. The values of a key in `watch` come from the most recent read of this key.',
  dlq: '[collectors.md](collectors.md) explains breakdowns, groups and filters. Numbers are from the last complete walk, plus entries listed since then. A message that enters and leaves between two reads is not counted. The entry time comes from the `dlqId`, otherwise from the first read that listed the message. A message that left counts as `expired` if it was in the queue for longer than `retention.dlq`, otherwise as `removed`. Without a configured retention, it counts as `unknown`. Callback states are exposed if the service reports them.',
  queues:
    'Exposed if the service lists queues. The service’s number of waiting messages is sometimes too low, so no built-in check relies on it alone.',
  events:
    '[collectors.md](collectors.md#events) explains the counters. Numbers about messages lag behind the newest event by `collect.events.overlap` plus up to a minute. Messages without a known creation time do not count as in flight, and are in no histogram except the duration of attempts. A message is due when it is created, or later if its first event contains a later delivery time. `delivery_events_recent` is exact up to 100,000 events. The sweep for delayed events covers at most the last two million events. Counters of a schedule omit starts for which the log may be incomplete.',
  schedules:
    '[objectives.md](objectives.md#schedules) explains when a start is missed or unexpected. The label `schedule` is the name of a configured schedule, otherwise the id. These metrics are exposed if the service has a list of schedules. For configured schedules, times, missed starts and late starts come from the event log instead.',
  runs: 'Exposed if the service lists workflow runs. If the service ignores the parameters of the request, the round fails, so that stuck runs do not stay unnoticed. The problem `run_stuck` names the oldest run.',
};

const OWN = '`delivery_up` is 0 before the first attempts. It ignores rounds that have nothing to read yet.';

function introductionOf(collector: string): string {
  const text = COLLECTORS[collector];
  if (text === undefined)
    throw new Error(`COLLECTORS in mixin/metrics-reference.ts has no introduction for ${collector}`);
  return text;
}

function metricsTable(families: readonly Family[]): string {
  const rows = families.map(({ name, type, labels, help }) => {
    const all = labels.map(label => `\`${label}\``).join(', ');
    return `| \`${name}\` | ${type} | ${all} | ${help.replace(' (1) or not (0)', '')} |`;
  });
  return ['| family | type | labels | meaning |', '|---|---|---|---|', ...rows].join('\n');
}

/** Returns the generated part of docs/metrics.md, which describes every metric family. */
export function metricsReference(): string {
  const agent = agentFamilies.filter(({ name }) => name.startsWith('delivery_'));
  // Each family is described once, even if several collectors have it.
  const described = new Set<string>([seriesDropped.name]);
  function ofCollector(families: Readonly<Record<string, Family>>): string {
    const own = Object.values(families).filter(({ name }) => !described.has(name));
    for (const { name } of own) described.add(name);
    return metricsTable(own);
  }
  const sections = [
    '## Account metrics',
    'All families in this section have the label `account`. *Whether*: the value is 1 if the statement is true, otherwise 0.',
    ...collectors.flatMap(({ name, configKey, families }) => [
      `### Collector \`${configKey}\``,
      introductionOf(name),
      ofCollector(families),
    ]),
    '### Limits and usage of the plan',
    'Usage is read only if `paths.account` is set. Limits, plan and state come from the management API or the last token reset, whichever is newer; other limits from the configuration. Unlimited or unknown limits are absent. [access.md](access.md#tokens) explains the API login.',
    ofCollector(accountPlan.families),
    '### Reading and requests',
    OWN,
    metricsTable([...Object.values(ownFamilies), seriesDropped, accountInfoFamily([])]),
    '### Objectives',
    metricsTable(Object.values(objectiveFamilies)),
    '### Auto-cancel',
    'Exposed only if `autoCancel.mode` is not `off`.',
    metricsTable(Object.values(autoCancelFamilies)),
    '### Problems',
    '[alerts.md](alerts.md#catalogue) lists the kinds of problems. Each kind and subject has one series, which continues after a restart. Problems of the agent itself have no label `account`.',
    metricsTable([alertingFamilies.problem]),
    '### Alerts',
    'Exposed only if `alerts.enabled` is true.',
    metricsTable([alertingFamilies.alerts]),
    '## Agent',
    'Metrics of the leader and its lease need `store.kind: postgres`. A standby exposes only the metrics in this section. The metrics `process_*` and `nodejs_*` of prom-client are also exposed.',
    metricsTable([alertingFamilies.notifications, ...Object.values(leaderFamilies), ...agent]),
  ];
  return sections.join('\n\n');
}
