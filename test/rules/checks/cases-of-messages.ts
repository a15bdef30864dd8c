import { createDestinationTally } from '../../../src/collectors/events/tally.ts';
import { seriesName } from '../../../src/history/series-name.ts';
import type { CalmAccount } from '../../support/calm-account.ts';
import { ago, type Case, finish, finished, ORDERS_503, queueOf, tallyOf } from './check-scene.ts';

const redelivered = (account: CalmAccount, count: number) => {
  const tally = tallyOf(account);
  tally.redelivered = count;
  tally.events.active = 20_000;
};
/** Returns the course of attempts. `made`: number of attempts in the last minutes. */
const attempts = (made: (minutes: number) => number) => ({
  [seriesName('delivery_events_total', { state: 'active' })]: (minutes: number) => 20_000 - made(minutes),
});

/** Cases about the messages of an account. */
export const MESSAGES: readonly Case[] = [
  [
    'a fast burn of the error budget',
    {
      change: account => finish(account, { delivered: 10_000, failed: 210, cancelled: 0 }),
      courses: {
        [finished('delivered')]: minutes => 10_000 - 10 * minutes,
        [finished('failed')]: minutes => Math.round(210 - 3.5 * minutes),
      },
    },
    [
      'critical messages_failing 0 min: 210 of the 810 messages that ended in the last hour failed: 25.9 % (the objective allows 1 %).',
    ],
  ],
  [
    'a fast burn with a kind of dead letters that grows',
    {
      change: account => {
        finish(account, { delivered: 10_000, failed: 210, cancelled: 0 });
        queueOf(account).messages = 103;
      },
      courses: {
        [finished('delivered')]: minutes => 10_000 - 10 * minutes,
        [finished('failed')]: minutes => Math.round(210 - 3.5 * minutes),
        delivery_dlq_groups: () => 1,
        [ORDERS_503]: minutes => (minutes > 30 ? 69 : 71),
      },
    },
    [
      'critical messages_failing 0 min: 210 of the 810 messages that ended in the last hour failed: 25.9 % (the objective allows 1 %); fastest growing kind of dead letters in the last hour: status 503 from api.example.com/orders (+2 of +3).',
    ],
  ],
  [
    'a slow burn since the agent started',
    {
      change: account => finish(account, { delivered: 1000, failed: 40, cancelled: 0 }),
      courses: {
        [finished('delivered')]: minutes => (minutes > 120 ? undefined : 1000 - 5 * minutes),
        [finished('failed')]: minutes => (minutes > 120 ? undefined : 40 - minutes / 4),
      },
    },
    [
      'warning messages_failing_slowly 0 min: 30 of the 630 messages that ended in 2 h failed: 4.8 % (the objective allows 1 %).',
    ],
  ],
  [
    'no burn with too few messages',
    {
      change: account => finish(account, { delivered: 1000, failed: 40, cancelled: 0 }),
      courses: {
        [finished('delivered')]: minutes => (minutes > 9 ? undefined : 1000 - minutes),
        [finished('failed')]: minutes => (minutes > 9 ? undefined : 40 - minutes),
      },
    },
    [],
  ],
  [
    'no burn after failures have stopped',
    {
      change: account => finish(account, { delivered: 10_000, failed: 210, cancelled: 0 }),
      courses: {
        [finished('delivered')]: minutes => 10_000 - 10 * minutes,
        [finished('failed')]: minutes => (minutes > 20 ? 0 : 210),
      },
    },
    [],
  ],
  [
    'overdue messages without any finished message',
    {
      change: ({ events }) => Object.assign(events.log, { overdue: 65 }),
      courses: { delivery_messages_overdue_total: minutes => 65 - minutes },
    },
    ['critical deliveries_stalled 0 min: 30 messages became overdue in 30 min, and none was delivered or failed.'],
  ],
  [
    'late messages',
    {
      change(account) {
        account.events.log.overdue = 65;
        finish(account, { delivered: 10_000, failed: 0 });
      },
      courses: {
        delivery_messages_overdue_total: minutes => 65 - minutes,
        [finished('delivered')]: minutes => 10_000 - 4 * minutes,
        [finished('failed')]: () => 0,
      },
    },
    [
      'critical messages_late 0 min: 60 messages missed the target of 5 min in the last hour, while 240 ended (the objective allows 1 % to be late).',
    ],
  ],
  [
    'a destination that fails',
    {
      change({ events }) {
        const tally = createDestinationTally();
        tally.events.error = 60;
        events.destinations.set('api.example.com', tally);
        events.labelled = { counters: true, histograms: false };
      },
      courses: {
        [seriesName('delivery_events_total', { state: 'error', destination: 'api.example.com' })]: minutes =>
          60 - 2 * minutes,
        [seriesName('delivery_events_total', { state: 'delivered', destination: 'api.example.com' })]: () => 0,
      },
    },
    [
      'warning destination_failing (api.example.com) 0 min: 30 delivery attempts to api.example.com failed in 15 min, and 0 succeeded.',
    ],
  ],
  [
    'redeliveries of more than 0.1 % of the attempts of an hour',
    { change: account => redelivered(account, 12), courses: attempts(minutes => (8000 * minutes) / 60) },
    [
      'warning redeliveries_high 0 min: 12 redeliveries were counted in the last hour: destinations receive messages twice.',
    ],
  ],
  [
    'no problem if redeliveries are 0.1 % of the attempts of the earlier hour in which they were made',
    { change: account => redelivered(account, 12), courses: attempts(minutes => 200 * Math.max(0, minutes - 30)) },
    [],
  ],
  [
    'no problem for nine redeliveries',
    { change: account => redelivered(account, 9), courses: attempts(minutes => minutes) },
    [],
  ],
  [
    'an event log that lags while dead letters arrive',
    {
      change(account) {
        account.events.gauges.newest = ago(20);
        queueOf(account).entered = 501;
      },
    },
    [
      'warning event_log_behind 20 min: The event log is 19 min behind, although messages are moving: message counts are outdated.',
    ],
  ],
  ['an idle account', { change: ({ events }) => Object.assign(events.gauges, { newest: ago(600) }) }, []],
  [
    'a gap in the log',
    { change: ({ events }) => Object.assign(events.log, { gaps: 1 }) },
    ['info event_log_gap 0 min: 1 gap in the event log in the last hour: event counters are too low.'],
  ],
];
