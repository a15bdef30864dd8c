import { hasFailed, type ListedSchedule } from '../../collectors/index.ts';
import { DAY, HOUR } from '../../kit/duration.ts';
import type { CheckedSchedule, CheckInput } from './account.ts';
import { type AccountCheck, checksOf, eachOf, type FoundOf, KEEP_FIRING_FOR, toAgentTime } from './check.ts';
import { clockTime } from './words.ts';

const ofEvents = checksOf('events');
const ofList = checksOf('schedules');

const ALERT = 'DeliveryScheduleFailing';

const isFailing = ({ state, next }: CheckedSchedule, now: number) => state === 'failing' && (next ?? now) - now > HOUR;

const eachSchedule = (
  source: CheckedSchedule['source'],
  check: (input: CheckInput, schedule: CheckedSchedule) => FoundOf,
) =>
  eachOf(
    ({ schedules }) => schedules.filter(each => each.source === source),
    ({ name }) => name,
    (input, schedule) => check(input, schedule) || (schedule.state === 'unknown' && 'unknown'),
  );

const missed = (source: CheckedSchedule['source']) =>
  ({
    // If an hourly schedule misses every other start, its alert must not flap.
    keepFiringFor: HOUR,
    when: 'a schedule missed its last expected start',
    check: eachSchedule(source, (input, { name, state, lastStarted }) => {
      if (state !== 'missed') return false;
      const seen = lastStarted === undefined ? 'seen yet' : `since ${clockTime(lastStarted, input.serviceNow)}`;
      return { since: toAgentTime(input, lastStarted), text: `Schedule ${name}: no message ${seen}.` };
    }),
  }) as const;

/** Runs a check for each schedule that the service lists. */
const eachListed = (check: (input: CheckInput, schedule: ListedSchedule) => FoundOf) =>
  eachOf(
    ({ shown }) => shown.schedules?.now?.listed ?? [],
    ({ name }) => name,
    check,
  );

export const SCHEDULES: readonly AccountCheck[] = [
  ofEvents('schedule_missed', ALERT, missed('events')),
  ofList('schedule_missed', ALERT, missed('schedules')),
  ofEvents('schedule_late', ALERT, {
    keepFiringFor: KEEP_FIRING_FOR,
    when: 'no message of a schedule’s last start was delivered within `endsWithin`. Or the schedule’s last message failed, and the next start is more than an hour away',
    check: eachSchedule('events', (input, schedule) => {
      const { name, state, lastDelivered } = schedule;
      const failed = isFailing(schedule, input.serviceNow);
      if (state !== 'late' && !failed) return false;
      const what = failed ? 'its last messages failed' : 'not delivered in time';
      const last = lastDelivered === undefined ? 'not seen yet' : `at ${clockTime(lastDelivered, input.serviceNow)}`;
      return { text: `Schedule ${name}: ${what}, last delivery ${last}.` };
    }),
  }),
  ofList('schedule_failing', ALERT, {
    when: 'the service reports an error of an active schedule, or all messages of the schedule’s last run failed',
    check: eachListed((input, { name, row }) => {
      if (row.paused || !hasFailed(row)) return false;
      const ran = row.lastRunAt === undefined ? '' : ` at ${clockTime(row.lastRunAt, input.serviceNow)}`;
      const why = row.error === undefined ? 'all its messages failed' : row.error;
      return { since: toAgentTime(input, row.lastRunAt), text: `Schedule ${name}: the last run${ran} failed: ${why}.` };
    }),
  }),
  ofList('schedule_paused', ALERT, {
    when: 'the service reported a schedule as active earlier, and has reported it as paused for more than a day',
    check: eachListed((input, { name, history: { pausedSince, sawPause } }) => {
      if (pausedSince === undefined || !sawPause || input.serviceNow - pausedSince <= DAY) return false;
      const at = clockTime(pausedSince, input.serviceNow);
      const since = toAgentTime(input, pausedSince);
      return { since, text: `Schedule ${name} is paused: the agent first read the pause at ${at}.` };
    }),
  }),
  ofList('schedule_unexpected', ALERT, {
    when: 'in the last hour, a schedule had an unexpected start: it started twice for the same expected time, earlier than expected, or during a pause',
    check: eachListed(({ serviceNow }, { name, history: { unexpectedAt } }) => {
      if (unexpectedAt === undefined || serviceNow - unexpectedAt > HOUR) return false;
      return { text: `Schedule ${name} started at ${clockTime(unexpectedAt, serviceNow)}, although no start was due.` };
    }),
  }),
  ofList('schedule_gone', ALERT, {
    when: 'in the last day, the service stopped listing a schedule that was active, and that the agent had known for at least a day',
    check: eachOf(
      ({ shown }) => shown.schedules?.now?.gone ?? [],
      ({ name }) => name,
      (input, { name, history: { goneSince = 0, seenAt, paused } }) => {
        if (paused !== false || goneSince - seenAt < DAY) return false;
        const text = `Schedule ${name}: the service has not listed it since ${clockTime(goneSince, input.serviceNow)}.`;
        return { since: toAgentTime(input, goneSince), text };
      },
    ),
  }),
];
