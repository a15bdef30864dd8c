import { type AlertCase, flat, from, until } from './case.ts';

const WAITLIST = 'delivery_flow_control_waitlist_size{flow_control_key="mail"}';
const PAUSED = 'delivery_flow_control_paused{flow_control_key="mail"}';
const STALE = 'delivery_collector_data_stale';

export const flowControlCases: readonly AlertCase[] = [
  {
    alert: 'DeliveryFlowControlBacklogGrowing',
    labels: { flow_control_key: 'mail' },
    fires: { [WAITLIST]: minute => 101 + minute },
    at: 16,
    says: 'At least 102 messages have been waiting on mail in a for 15 minutes, and the number is growing: its limits are below the arrival rate.',
    below: {
      'a hundred': { [WAITLIST]: minute => Math.min(100, minute) },
      'fewer and fewer': { [WAITLIST]: minute => 5000 - minute },
    },
    idle: { [WAITLIST]: flat(0) },
  },
  {
    alert: 'DeliveryWaitlistStalled',
    labels: { flow_control_key: 'mail' },
    fires: { [WAITLIST]: flat(5), [PAUSED]: flat(0) },
    at: 40,
    says: 'The waitlist of mail in a has not changed for 30 minutes, although the key is not paused. Waiting messages: 5.',
    below: {
      'a change now and then': { [WAITLIST]: minute => 5 + (Math.floor(minute / 25) % 2) },
      'a paused key': { [WAITLIST]: flat(5), [PAUSED]: flat(1) },
      'half an hour': { [WAITLIST]: until(40, 5) },
      'a number that is not read any more': {
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
    says: 'The key mail in a has been paused for more than an hour. Waiting messages: 3.',
    below: {
      'less than an hour': { [WAITLIST]: flat(3), [PAUSED]: until(60, 1) },
      'nothing waits': { [WAITLIST]: flat(0), [PAUSED]: flat(1) },
    },
    idle: { [WAITLIST]: flat(0), [PAUSED]: flat(0) },
  },
];
