import { accountPlan } from '../src/collectors/account-plan.ts';
import { dlq } from '../src/collectors/dlq/dlq.ts';
import { events } from '../src/collectors/events/events.ts';
import { flowControl } from '../src/collectors/flow-control/flow-control.ts';
import { highestOf } from '../src/rules/promql.ts';
import { ofRow, ofSeries, TRACES } from './dashboard-links.ts';
import { firstScreen } from './first-screen.ts';
import { each, type PanelSpec, type RowSpec } from './panel.ts';
import { placeholder } from './placeholder.ts';
import { ACCOUNT_LEGEND, age, chosen, flow, highestTen, inHours, level, PER_TEN, quantile, rise } from './queries.ts';
import { schedulesRow } from './schedules-row.ts';

const { total, finished, timeToDeliver, queueWait, attempt, attempts, answers, inFlight, oldestInFlight, overdue } =
  events.families;
const { waitlistSize, parallelismInUse, parallelismLimit, rateUsed, rateLimit, paused, auditedKeys, ghostSlots } =
  flowControl.families;

const outcome = (is: string | RegExp) => ({ keep: ['account'], where: { outcome: is } }) as const;
const state = (is: string) => ({ keep: ['account'], where: { state: is } }) as const;
const perKey = { keep: ['account', 'flow_control_key'] } as const;
const KEY = `${ACCOUNT_LEGEND} {{flow_control_key}}`;

const rate: readonly PanelSpec[] = [
  {
    kind: 'stack',
    title: 'Ended messages',
    description:
      'How many messages end per second, by outcome? Shortly after a mark “Catching up”, the rate includes what ended while the agent was blind.',
    unit: 'messages/s',
    queries: each('{{outcome}}', flow(finished, { keep: ['outcome'] })),
  },
  {
    kind: 'stack',
    title: 'Events by state',
    description: 'Which events does the log list? Each event is counted once.',
    unit: 'events/s',
    queries: each('{{state}}', flow(total, { keep: ['state'] })),
  },
  {
    title: 'Delivered by destination',
    description: `Which destinations get messages? ${PER_TEN} No lines if events.destination is none.`,
    unit: 'messages/s',
    queries: each(
      '{{destination}}',
      highestTen(flow(finished, { keep: ['destination'], where: { outcome: 'delivered', destination: /.+/ } })),
    ),
    hasManyLines: true,
    noValue: 'events.destination is none, or nothing was delivered',
  },
  {
    title: 'Failed by destination',
    description: `At which destinations do messages fail permanently? ${PER_TEN} No lines if events.destination is none.`,
    unit: 'messages/s',
    queries: each(
      '{{destination}}',
      highestTen(flow(finished, { keep: ['destination'], where: { outcome: 'failed', destination: /.+/ } })),
    ),
    hasManyLines: true,
    noValue: 'events.destination is none, or nothing failed',
  },
];

const errors: readonly PanelSpec[] = [
  {
    title: 'Failing share',
    description: `Which share of ended messages failed permanently? ${PER_TEN} Lines: the error budget, and 14.4 times as fast.`,
    unit: 'share',
    queries: each(
      ACCOUNT_LEGEND,
      highestTen(`${flow(finished, outcome('failed'))} / (${flow(finished, outcome(/delivered|failed/))} > 0)`),
    ),
    hasManyLines: true,
    thresholds: {
      warning: placeholder('failureBudget'),
      critical: placeholder('failureBudget14x'),
      calm: 'transparent',
    },
    links: ofSeries('overview', 'dlq'),
    noValue: 'no message ended',
  },
  {
    title: 'Retry ratio',
    description: `Which share of delivery attempts leads to a retry? It rises before the dead-letter queue grows. ${PER_TEN}`,
    unit: 'share',
    queries: each(ACCOUNT_LEGEND, highestTen(`${flow(total, state('retry'))} / (${flow(total, state('active'))} > 0)`)),
    hasManyLines: true,
    thresholds: { warning: 0.1, critical: 0.25, calm: 'transparent' },
    links: ofSeries('overview'),
    noValue: 'no attempt was made',
  },
  {
    kind: 'stack',
    title: 'Attempts by status class',
    description: 'How do destinations answer delivery attempts? none: no response, or the log does not tell.',
    unit: 'attempts/s',
    queries: each('{{status_class}}', flow(answers, { keep: ['status_class'] })),
  },
  {
    title: 'Failed attempts by destination',
    description: `Which destinations answer with errors, and with which? ${PER_TEN} No lines if events.destination is none.`,
    unit: 'attempts/s',
    queries: each(
      '{{destination}} {{status_class}}',
      highestTen(
        flow(answers, { keep: ['destination', 'status_class'], where: { result: 'error', destination: /.+/ } }),
      ),
    ),
    hasManyLines: true,
    noValue: 'events.destination is none, or no attempt failed',
  },
];

const time: readonly PanelSpec[] = [
  {
    kind: 'heatmap',
    title: 'Time to deliver',
    description:
      'How long does delivery take from when a message is due, retries included? Dots are messages with a trace.',
    unit: 'seconds',
    height: 10,
    queries: each('{{le}}', rise(timeToDeliver, '$__rate_interval', { keep: ['le'], suffix: '_bucket' })),
    links: [TRACES],
    noValue: 'no message was delivered',
  },
  {
    title: 'Not on time',
    description: `Which share of the messages of the 30 minutes before did not end when they were to, by default ${placeholder('onTimeWithin')} after they were due? Counted when that time is over, so that messages which hang show, too. ${PER_TEN} Lines: what the objective allows, and 14.4 times that.`,
    height: 10,
    unit: 'share',
    queries: each(
      ACCOUNT_LEGEND,
      highestTen(
        `clamp_max(${rise(overdue, '30m', { keep: ['account'] })} / (${rise(finished, '30m', outcome(/.+/))} > 0), 1)`,
      ),
    ),
    hasManyLines: true,
    thresholds: { warning: placeholder('lateBudget'), critical: placeholder('lateBudget14x'), calm: 'transparent' },
    links: [...ofSeries('overview'), TRACES],
    noValue: 'no message ended',
  },
  {
    title: 'Queue wait',
    description: 'How long do messages wait from when they are due to their first attempt?',
    unit: 'seconds',
    queries: [
      { legend: 'p50', expr: quantile(0.5, queueWait) },
      { legend: 'p95', expr: quantile(0.95, queueWait) },
    ],
    noValue: 'no attempt was made',
  },
  {
    title: 'Attempt duration, p95',
    description: 'How long do destinations take to respond, by result?',
    unit: 'seconds',
    queries: each('{{result}}', quantile(0.95, attempt, ['result'])),
    noValue: 'no attempt ended',
  },
  {
    title: 'Attempts per message',
    description: 'How many attempts does a message take on average, by outcome?',
    unit: 'number',
    queries: each(
      '{{outcome}}',
      `${flow(attempts, { keep: ['outcome'], suffix: '_sum' })} / (${flow(attempts, { keep: ['outcome'], suffix: '_count' })} > 0)`,
    ),
    noValue: 'no message ended',
  },
  {
    title: 'Oldest in flight',
    description: `How old is the oldest message that has not ended? Messages may be scheduled for later. ${PER_TEN}`,
    unit: 'hours',
    queries: each(ACCOUNT_LEGEND, highestTen(inHours(age(oldestInFlight)))),
    hasManyLines: true,
    links: ofSeries('overview'),
    noValue: 'nothing is in flight',
  },
];

const used = (part: string, whole: string) => `${part} / (${whole} > 0)`;
const limit = (name: string) => {
  const family = accountPlan.families[name];
  if (!family) throw new RangeError(`the plan has no limit ${name}`);
  return highestOf(chosen(family));
};
const NEARLY = { warning: 0.8, critical: 0.95 };

const saturation: readonly PanelSpec[] = [
  {
    title: 'In flight',
    description: `How many messages are created but not ended? ${PER_TEN}`,
    queries: each(ACCOUNT_LEGEND, highestTen(level(inFlight, { keep: ['account'] }))),
    hasManyLines: true,
    links: ofSeries('overview'),
  },
  {
    title: 'Waitlists',
    description: `How many messages wait on flow-control keys? ${PER_TEN}`,
    queries: each(KEY, highestTen(level(waitlistSize, perKey))),
    hasManyLines: true,
    noValue: 'there are no flow-control keys',
  },
  {
    title: 'Parallelism used',
    description: `How much of a flow-control key’s parallelism is used? ${PER_TEN} Only where the service reports it.`,
    unit: 'share',
    queries: each(KEY, highestTen(used(level(parallelismInUse, perKey), level(parallelismLimit, perKey)))),
    hasManyLines: true,
    noValue: 'not reported by the service',
  },
  {
    title: 'Rate used',
    description: `How much of a flow-control key’s rate limit is used in its current period? ${PER_TEN} Only where the service reports it.`,
    unit: 'share',
    queries: each(KEY, highestTen(used(level(rateUsed, perKey), level(rateLimit, perKey)))),
    hasManyLines: true,
    noValue: 'not reported by the service',
  },
  {
    kind: 'stack',
    title: 'Keys by state',
    description:
      'What holds back the messages that wait on flow-control keys? Only where the service reports parallelism.',
    queries: each('{{state}}', level(auditedKeys, { keep: ['state'] })),
    noValue: 'not reported by the service',
  },
  {
    title: 'Ghost slots',
    description: `How many slots of a flow-control key are in use though nothing runs in them? ${PER_TEN} Only where that can be told.`,
    queries: each(KEY, highestTen(level(ghostSlots, perKey))),
    hasManyLines: true,
    noValue: 'not reported by the service',
  },
  {
    title: 'Paused keys',
    description: `How many flow-control keys are paused? ${PER_TEN} Only where the service reports it.`,
    queries: each(ACCOUNT_LEGEND, highestTen(level(paused, { keep: ['account'] }))),
    hasManyLines: true,
    noValue: 'not reported by the service',
  },
  {
    kind: 'table',
    title: 'Plan limits used',
    description:
      'How much of its plan’s limits does each account use? Messages: created in the last 24 hours, of the requests a day. Empty: unlimited, or unknown because the account’s limits are neither configured nor in the record of a token reset.',
    unit: 'share',
    labels: { account: 'Account' },
    columns: [
      {
        title: 'Messages a day',
        unit: 'share',
        expr: used(rise(total, '24h', state('created')), limit('requests_per_day')),
        thresholds: NEARLY,
        bar: { full: 1 },
      },
      {
        title: 'Parallelism',
        unit: 'share',
        expr: used(level(parallelismInUse, { keep: ['account'] }), limit('global_parallelism')),
        thresholds: NEARLY,
        bar: { full: 1 },
      },
      {
        title: 'Dead letters',
        unit: 'share',
        expr: used(level(dlq.families.messages, { keep: ['account'] }), limit('dlq_size')),
        thresholds: NEARLY,
        bar: { full: 1 },
      },
    ],
    sortBy: ['Messages a day'],
    links: { Account: ofRow('overview', 'dlq') },
    noValue: 'the limits of the plan are unknown',
  },
];

/** Deliveries: current state; then rate, errors, time, saturation. */
export const overview: readonly RowSpec[] = [
  firstScreen,
  { title: 'Rate', panels: rate },
  { title: 'Errors', panels: errors },
  { title: 'Time', panels: time },
  { title: 'Saturation', panels: saturation },
  schedulesRow,
];
