import { ownFamilies } from '../src/metrics/own.ts';
import { accountsOf, onAccount, series } from '../src/rules/promql.ts';
import type { RecordingRule } from './promql.ts';
import { WINDOW_SECONDS, type Window } from './thresholds.ts';

const complete = (window: Window) => ({ name: `replica:delivery_event_log_complete:window${window}`, labels: [] });

/** Whether replicas counted events as they happened at any time in the previous five minutes. */
const counting = (offset = '') => `max_over_time(${series(ownFamilies.counting)}[5m]${offset})`;

/**
 * 1 for each replica that counted exactly the events of a window. After an outage the agent counts all missed events at
 * once. A window that starts in the outage contains events from before its start; a window that contains the outage is
 * correct. So a replica must have counted events at the window's start and its counters must not be frozen now. The
 * sums of a replica that ended stay until its windows end; if all replicas of the start ended, their successor also
 * counts.
 */
export function completeRecord(window: Window): RecordingRule {
  const [now, before] = [`${counting()} == 1`, `${counting(` offset ${window}`)} == 1`];
  const replaced = `${accountsOf(before)} unless ${accountsOf(`${now} and ${before}`)}`;
  return {
    record: complete(window).name,
    expr: `(${before} unless ${counting()} == 0) or (${now} and ${onAccount()} (${replaced}))`,
  };
}

/** Selects replicas with a complete window from a vector with all labels of the target, and `labels`. */
export const ifComplete = (window: Window, labels: readonly string[] = []) =>
  `and${labels.length === 0 ? '' : ` ignoring (${labels.join(', ')})`} ${series(complete(window))}`;

/** Accounts for which a replica has a complete window. */
export const judgedIn = (window: Window) => accountsOf(series(complete(window)));

/**
 * A range of `window` without its start, where Prometheus before version 3 includes a sample. Recorded increases would
 * then cover one minute too many.
 */
export const range = (window: Window) => `[${WINDOW_SECONDS[window] - 1}s]`;
