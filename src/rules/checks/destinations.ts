import { type EventsFacts, eventFamilies } from '../../collectors/index.ts';
import { HOUR } from '../../history/recent.ts';
import { seriesName } from '../../history/series-name.ts';
import { MINUTE } from '../../kit/duration.ts';
import { DESTINATION } from '../../metrics/thresholds.ts';
import type { CheckInput } from './account.ts';
import { countedPart } from './burns.ts';
import { type AccountCheck, type CheckOutcome, checksOf, covers, type Findings, UNKNOWN } from './check.ts';
import { count, inLast, within } from './words.ts';

const defineCheck = checksOf('events');

const { attempts, messages } = DESTINATION;

export const attemptsOf = (state: 'error' | 'delivered', destination: string) =>
  seriesName(eventFamilies.total.name, { state, destination });
export const messagesOf = (outcome: 'failed' | 'delivered', destination: string) =>
  seriesName(eventFamilies.finished.name, { outcome, destination });

/** Returns the counts by destination, if events have the label `destination`. */
export const destinationsOf = (facts: EventsFacts | undefined) =>
  facts?.labelled.counters ? [...facts.destinations].filter(([destination]) => destination !== '') : [];

/** Windows have values only of destinations that fail. */
function failing(input: CheckInput): Findings {
  const part = countedPart(input, attempts.over);
  if (part === undefined) return UNKNOWN;
  const { rise } = input.changes;
  return destinationsOf(input.shown.events?.committed).flatMap(([subject, { events, finished }]): CheckOutcome | [] => {
    const errors = rise(attemptsOf('error', subject), events.error, part);
    const successes = rise(attemptsOf('delivered', subject), events.delivered, part)?.by ?? 0;
    if (errors && errors.by > Math.max(successes, attempts.more)) {
      const text = `${count(errors.by)} delivery attempts to ${subject} failed ${within(errors.overSeconds)}, and ${count(successes)} succeeded.`;
      return { subject, text };
    }
    const failed = rise(messagesOf('failed', subject), finished.failed, messages.over);
    const delivered = rise(messagesOf('delivered', subject), finished.delivered, messages.over);
    if (!failed || failed.by < messages.fewest || delivered?.by !== 0) return [];
    if (!covers(delivered, messages.over) && finished.delivered > 0) return [];
    return {
      subject,
      text: `${count(failed.by)} messages to ${subject} failed ${within(failed.overSeconds)}, and none was delivered.`,
    };
  });
}

export const FAILING_DESTINATIONS: readonly AccountCheck[] = [
  defineCheck('destination_failing', 'DeliveryDestinationFailing', {
    for: 5 * MINUTE,
    // Intervals between retries grow, so a pause between attempts does not mean recovery.
    keepFiringFor: HOUR,
    when: `${inLast(attempts.over)}, more than ${attempts.more} delivery attempts to a destination failed, and fewer succeeded. Or ${inLast(messages.over)}, at least ${messages.fewest} messages to a destination failed, and none was delivered. This check requires \`collect.events.destination\``,
    check: failing,
  }),
];
