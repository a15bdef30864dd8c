import { accountsOf, isBlind, latest, onAccount, type RecordingRule, series } from '../alerts/promql.ts';
import { events } from '../collectors/events/events.ts';
import { ownFamilies } from '../metrics/own.ts';
import { WINDOW_SECONDS, type Window } from '../metrics/thresholds.ts';

export type { Window };

/** The round that reads the event log to its end. */
const TAIL = { collector: 'events', round: 'tail' };

const notWhole = (window: Window) => ({ name: `replica:delivery_event_log_not_whole:window${window}`, labels: [] });

/** Replicas whose counters have stood still for five minutes: nothing is read, or what is read can't be stored. */
const isStanding = (offset = '') => `max_over_time(${series(ownFamilies.success, TAIL)}[5m]${offset}) == 0`;

/**
 * Replicas that did not see all of a window as it happened: 1 for each. After an outage all that happened meanwhile is counted
 * at once, and a window that began in the outage would take it for its own; one that holds the whole outage may. So a window is
 * not whole where the replica is blind or its counters stand still, where it was so for the five minutes before the window's
 * start, or where it was not there at the start though it has counted since before. The last is no fault of a replica with new
 * labels, as of a replaced pod, or of one that took over: where one read the account at the start, and none has been there
 * since, it goes on from that.
 */
export function notWholeRecord(window: Window): RecordingRule {
  const offset = ` offset ${window}`;
  const stale = `min_over_time(${series(ownFamilies.dataStale, TAIL)}[5m]${offset}) == 1 or ${isStanding(offset)}`;
  const read = series(ownFamilies.dataTimestamp, TAIL);
  const [before, now] = [latest(read, offset), `(${latest(read)} unless ${isStanding()})`];
  const absent = `${latest(series(events.families.since))} < time() - ${WINDOW_SECONDS[window]} unless ignoring (collector, round) ${before}`;
  const replaced = `${accountsOf(`${before} unless (${stale})`)} unless ${accountsOf(`${before} and ${now}`)}`;
  return {
    record: notWhole(window).name,
    expr: `group without (collector, round) (${isBlind('events')} or ${isStanding()} or ${stale} or ((${absent}) unless ${onAccount()} (${replaced})))`,
  };
}

/** Leaves replicas that have not seen a whole window out of a vector with all labels of the target, and `labels`. */
export const ifWhole = (window: Window, labels: readonly string[] = []) =>
  `unless${labels.length === 0 ? '' : ` ignoring (${labels.join(', ')})`} ${series(notWhole(window))}`;

/** Accounts of which a replica has seen a whole window. */
export const judgedIn = (window: Window) =>
  accountsOf(`${series(ownFamilies.dataStale, TAIL)} unless ignoring (collector, round) ${series(notWhole(window))}`);

/**
 * A range of `window` without its start: Prometheus before 3 takes a sample there, too.
 * Of recorded increases that would be one minute too many.
 */
export const range = (window: Window) => `[${WINDOW_SECONDS[window] - 1}s]`;
