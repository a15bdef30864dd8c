import { secondsToDrain, type TrackedKey } from '../collectors/flow-control/families.ts';
import type { FlowControlEntry } from '../model/message.ts';
import type { CheckInput } from '../rules/checks/account.ts';
import { lastChanges, waitlistOf } from '../rules/checks/flow-control.ts';
import type { AccountView } from './api/account.ts';
import { iso, isoTime, orNull, sum } from './values.ts';

type FlowControl = AccountView['flowControl'];

/** Window over which the change of a waitlist is measured (ms). */
const PACE_OVER = 900_000;

/** Returns the utilization of parallelism or of rate, whichever is higher; null if both are unknown. */
function saturation({ parallelismLimit, parallelismInUse, rateLimit, rateUsed }: FlowControlEntry): number | null {
  const shares = [
    [parallelismInUse, parallelismLimit],
    [rateUsed, rateLimit],
  ].flatMap(([used, limit]) => (used !== undefined && limit ? [used / limit] : []));
  return shares.length === 0 ? null : Math.max(...shares);
}

/** Returns the number of waiting messages on all keys; null if that of any key is unknown. */
export function waitingOf({ shown: { flow_control: read } }: CheckInput): number | null {
  const { keys, shown = [], beyondCapWaiting = 0 } = read?.now ?? {};
  const sizes = shown.flatMap(({ waitlistSize }) => waitlistSize ?? []);
  return keys !== undefined && sizes.length === shown.length ? sum(sizes) + beyondCapWaiting : null;
}

export function flowControlView(input: CheckInput): FlowControl {
  const { enabled, data } = input.dataOf('flow_control');
  const { now, committed } = input.shown.flow_control ?? {};
  const { keys, beyondCap = 0, beyondCapWaiting = 0, parallelism } = now ?? {};
  function row(entry: TrackedKey): FlowControl['rows'][number] {
    const { key, waitlistSize: waiting } = entry;
    const change = input.changes.change(waitlistOf(key), waiting, PACE_OVER);
    const [last] = lastChanges(committed?.limits.get(key));
    return {
      key,
      waiting: orNull(waiting),
      change,
      state: orNull(entry.state),
      stateSince: isoTime(entry.since),
      drainSeconds: orNull(secondsToDrain(entry)),
      parallelismLimit: orNull(entry.parallelismLimit),
      parallelismInUse: orNull(entry.parallelismInUse),
      rateLimit: orNull(entry.rateLimit),
      rateUsed: orNull(entry.rateUsed),
      ratePeriodSeconds: orNull(entry.ratePeriodSeconds),
      paused: orNull(entry.paused),
      pinned: entry.pinned === undefined ? null : [...entry.pinned],
      lastChange: last ? { limit: last.limit, from: last.from, to: last.to, at: iso(last.at) } : null,
      saturation: saturation(entry),
    };
  }
  return {
    enabled,
    data,
    keys: orNull(keys),
    waiting: waitingOf(input),
    beyondCap,
    beyondCapWaiting,
    parallelismLimit: orNull(parallelism?.limit),
    parallelismInUse: orNull(parallelism?.inUse),
    rows: input.keys.map(row),
  };
}
