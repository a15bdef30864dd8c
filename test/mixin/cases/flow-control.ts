import { type AlertCase, flat, from, until } from './case.ts';

const ofKey = (name: string) => `delivery_flow_control_${name}{flow_control_key="mail"}`;
const [WAITLIST, PAUSED] = [ofKey('waitlist_size'), ofKey('paused')];
const stateOf = (state: string) => `delivery_flow_control_state{flow_control_key="mail",state="${state}"}`;
const STALE = 'delivery_collector_data_stale';
const PARALLELISM = 'delivery_account_limit{limit="global_parallelism"}';
const inUse = (key: string) => `delivery_flow_control_parallelism_in_use{flow_control_key="${key}"}`;

export const flowControlCases: readonly AlertCase[] = [
  {
    alert: 'DeliveryFlowControlBacklogGrowing',
    labels: { flow_control_key: 'mail' },
    fires: { [WAITLIST]: minute => 101 + 10 * minute, [PAUSED]: flat(0) },
    at: 85,
    description:
      'At least 351 messages have been waiting on mail in a for an hour, many more than in the hour before: its limits are below the arrival rate.',
    below: {
      'a hundred': { [WAITLIST]: minute => Math.min(100, minute) },
      'a decrease': { [WAITLIST]: minute => 5000 - minute },
      'one more a minute on a long waitlist': { [WAITLIST]: minute => 5000 + minute },
      'a waitlist that is filled and emptied repeatedly': { [WAITLIST]: minute => 100 + 100 * (minute % 50) },
      'a paused key': { [WAITLIST]: minute => 101 + 10 * minute, [PAUSED]: flat(1) },
    },
    idle: { [WAITLIST]: flat(0), [PAUSED]: flat(0) },
    evaluableAfter: 120,
  },
  {
    alert: 'DeliveryWaitlistStalled',
    labels: { flow_control_key: 'mail' },
    fires: { [WAITLIST]: flat(5), [stateOf('parallelism_full')]: flat(1) },
    at: 40,
    description:
      'The waitlist of mail in a has not changed for 30 minutes, although the key is not paused and its rate is not used up. Waiting messages: 5.',
    below: {
      'an occasional change': { [WAITLIST]: minute => 5 + (Math.floor(minute / 25) % 2) },
      'a paused key': { [WAITLIST]: flat(5), [stateOf('paused')]: flat(1) },
      'a daily rate that is used up': { [WAITLIST]: flat(5), [stateOf('rate_limited')]: flat(1) },
      'half an hour': { [WAITLIST]: until(40, 5) },
      'a waitlist that is no longer read': {
        [WAITLIST]: minute => Math.min(20, minute),
        [`${STALE}{collector="flow_control",round="list"}`]: from(23, 1),
        'delivery_collector_data_timestamp_seconds{collector="flow_control",round="list"}': minute =>
          60 * Math.min(20, minute),
      },
    },
    idle: { [WAITLIST]: flat(0), [PAUSED]: flat(0) },
  },
  {
    alert: 'DeliveryDispatchPausedWithBacklog',
    labels: { flow_control_key: 'mail' },
    fires: { [WAITLIST]: minute => 3 + (minute % 2), [PAUSED]: flat(1) },
    at: 60,
    description: 'The key mail in a has been paused for more than an hour. Waiting messages: 3.',
    below: {
      'less than an hour': { [WAITLIST]: flat(3), [PAUSED]: until(60, 1) },
      'an empty waitlist': { [WAITLIST]: flat(0), [PAUSED]: flat(1) },
    },
    idle: { [WAITLIST]: flat(0), [PAUSED]: flat(0) },
  },
  {
    alert: 'DeliveryParallelismNearlyUsed',
    fires: { [inUse('mail')]: flat(60), [inUse('llm')]: flat(31), [PARALLELISM]: flat(100) },
    at: 15,
    description:
      'For 15 minutes, deliveries in a with a flow-control key alone have used 91% of the concurrent deliveries that the plan allows.',
    below: {
      'nine of ten': { [inUse('mail')]: flat(60), [inUse('llm')]: flat(30), [PARALLELISM]: flat(100) },
      'less than 15 minutes': { [inUse('mail')]: until(15, 99), [PARALLELISM]: flat(100) },
      'an unknown plan': { [inUse('mail')]: flat(999) },
    },
    idle: { [inUse('mail')]: flat(0), [PARALLELISM]: flat(100) },
  },
];
