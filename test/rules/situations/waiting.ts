/** Situations that the checks do not evaluate as expected yet, with what they report. */
const WAITS_FOR: Readonly<Record<string, string>> = {
  // Kinds that do not exist yet.
  destination_failing: 'no check',
  dlq_first_entry: 'no check',
  'a destination with two messages an hour, all failing for a day': 'no check of destinations',
  'a failing destination without further attempts, as after its removal': 'no check of destinations',
  'first entries while reads fail': 'no check of first entries',
  'the oldest entry is much older than the configured retention': 'dlq_expiring instead of retention_too_short',
  // Windows longer than an hour.
  'nine messages an hour, all failing': 'nothing: there is no window of six hours',
  'eight messages an hour, all failing: ten within six hours': 'nothing: there is no window of six hours',
  'one message an hour, all failing': 'nothing: there is no window of a day',
  'an objective of 90 % with 12 % failing': 'nothing: there is no window of three days',
  '4.9 % fail for a day after a day without failures': 'messages_failing_slowly after 52 minutes, not after 14 hours',
  'half of all messages fail for two hours after a day without failures':
    'messages_failing_slowly from minute 1632 to 1650: the fast burn is still in its hour',
  'eight more an hour in a queue of three': 'dlq_growing ends after 73 minutes although the queue goes on growing',
  'twenty more every twenty minutes in a queue of 100': 'dlq_growing ends after 108 minutes',
  '60 more every hour in a queue of 1,440': 'dlq_growing from minute 2 to 25 of each hour',
  'a bulk retry of an hour ago fails again': 'dlq_growing again, from minute 317 to 345',
  'a bulk retry fails again over two hours': 'dlq_growing again, from minute 332 to 419',
  // What is counted at once after a time without reads.
  'an agent was down for a day and counts the failures of that day at once':
    'messages_failing from minute 1443 to 1456: the jump is in the last five minutes',
  'reads fail for a day in which messages fail': 'messages_failing from minute 1442 to 1455',
  'reads fail for an hour in which messages fail for half an hour': 'messages_failing for 14 minutes',
  'an hour without reads in which few messages are overdue in each half hour':
    'deliveries_stalled from minute 339 to 345: messages of four hours became overdue in a quarter of an hour',
  'many more entries while reads fail': 'nothing: there is no size before the last 90 minutes',
  // Other differences.
  'all messages hang and no more are published':
    'deliveries_stalled ends at minute 66, as no more messages become overdue',
  'all messages hang and no more are published, until they are delivered': 'deliveries_stalled ends at minute 56',
  'a weekly batch of 50,000 messages that drains in six hours':
    'waitlist_growing from minute 155 to 175 although the waitlist only shrinks',
  'waitlist_growing: is not reported: a waitlist that is filled and emptied':
    'reported from minute 26 to 65, because a part of the first hour suffices',
  'four rows and an unreadable one remain of a nearly full queue':
    'dlq_nearly_full does not end, although the size includes unreadable rows',
  'the event log has no new event although a waitlist changes':
    'nothing: only the first and the last size of 15 minutes are compared, which are equal',
  'the event log stops while messages are in flight and a waitlist changes':
    'deliveries_stalled from minute 100 to 102, too',
  'a restored backup lowers every counter by one; no agent runs for 1 min':
    'schedule_late: a counter that decreases from 7 to 6 counts as 6 late starts',
  'rate_limited: a restart just before':
    'nothing for 15 minutes: a counter of the agent that restarts in a gap is unknown',
  'lists_missing: a restart just before':
    'reported at minute 24 instead of 15: a counter of the agent that restarts in a gap is unknown for 15 minutes',
};

/** Whether a situation waits for a change of the checks. `names`: its name, or a kind and the name of a replay. */
export const waitsFor = (...names: readonly [string] | readonly [kind: string, replay: string]): boolean =>
  !process.env.ALL_SITUATIONS && (WAITS_FOR[names[0]] ?? WAITS_FOR[names.join(': ')]) !== undefined;
