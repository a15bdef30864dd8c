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
    '[collectors.md](collectors.md#flow-control) explains the states. Limits, usage and pauses are exposed if the service reports them. `__other__` is the sum of the keys beyond `collect.flowControl.maxSeries`. The values of a key in `watch` come from its most recent read.',
  dlq: '[collectors.md](collectors.md) explains breakdowns, groups and filters. Numbers are from the last complete walk, plus entries listed since. A message that enters and leaves between two reads is not counted. The entry time comes from the `dlqId`, or otherwise is the time of the first read that listed the message. The reason of a message that left is `expired` if it was queued for longer than `retention.dlq`, otherwise `removed`; it is `unknown` if no retention is configured. Callback states are exposed if the service reports them.',
  queues:
    'Exposed if the service lists queues. The service’s number of waiting messages is known to be too low at times: the built-in checks never rely on it alone. `__other__` is the sum of the queues beyond `collect.queues.maxSeries`.',
  events:
    '[collectors.md](collectors.md#events) explains the counters. Computed numbers lag behind the newest event by `collect.events.overlap`, or by up to a minute more. Messages in flight, and all histograms except the duration of attempts, include only messages with a known creation time. A message is due when it is created, or at a later delivery time if its first event contains one. `delivery_events_recent` is exact up to 100,000 events. The late sweep covers at most the last two million events. Counters of a schedule omit starts for which the log may be incomplete.',
  schedules:
    '[objectives.md](objectives.md#schedules) explains when a start is missed or unexpected. The label `schedule` is the name of a configured schedule, otherwise the id. Exposed if the service has a list of schedules; of configured schedules, the times and the counters of missed and late starts come from the event log instead.',
  runs: 'Exposed if the service lists workflow runs. The rows are compared with the question: if the service ignores it, the round fails instead of reporting no stuck run. The check `run_stuck` names the oldest run.',
};

const OWN =
  '`delivery_up` is 0 before the first attempts, and ignores rounds that have nothing to read yet. Data of DLQ walks is stale after at most two intervals.';

function introductionOf(collector: string): string {
  const text = COLLECTORS[collector];
  if (text === undefined)
    throw new Error(`COLLECTORS in mixin/metrics-reference.ts has no introduction for ${collector}`);
  return text;
}

function metricsTable(families: readonly Family[]): string {
  const rows = families.map(({ name, type, labels, help }) => {
    const all = labels.map(label => `\`${label}\``).join(', ');
    return `| \`${name}\` | ${type} | ${all} | ${help} |`;
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
    'All families in this section have the label `account`.',
    ...collectors.flatMap(({ name, configKey, families }) => [
      `### Collector \`${configKey}\``,
      introductionOf(name),
      ofCollector(families),
    ]),
    '### Limits and usage of the plan',
    'Usage is read only if `paths.account` is set. Limits are those of the newer record: of the management API, or of the last token reset. Unlimited or unknown limits are absent. [access.md](access.md#tokens) explains the login.',
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
    'Each series of `delivery_problem` is a problem of [alerts.md](alerts.md#catalogue), whose state is stored. Problems of the agent itself have no label `account`. Each kind and subject has one series.',
    metricsTable([alertingFamilies.problem]),
    '### Alerts',
    'Exposed only if `alerts.enabled` is true.',
    metricsTable([alertingFamilies.alerts]),
    '## Agent',
    'Leader and lease metrics need `store.kind: postgres`; a standby exposes only the metrics in this section. The metrics `process_*` and `nodejs_*` of prom-client are also exposed.',
    metricsTable([alertingFamilies.notifications, ...Object.values(leaderFamilies), ...agent]),
  ];
  return sections.join('\n\n');
}
