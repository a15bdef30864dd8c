import { OTHER } from '../../collectors/cap.ts';
import { flowControl as collector } from '../../collectors/flow-control.ts';
import type { AccountView } from '../../http/api/account.ts';
import { FLOW_REASONS, FLOW_STATES } from '../../model/flow-state.ts';
import { type Change, type Recent, seriesName } from './recent.ts';
import type { Shown } from './samples.ts';
import type { Truth } from './truth.ts';
import { byLabel, isoSeconds, orNull, sum } from './values.ts';

type FlowControl = AccountView['flowControl'];
type Row = FlowControl['rows'][number];

const { families } = collector;
const { waitlistSize, keys, seriesDropped, state, auditedKeys: _keys, ...PER_KEY } = families;

/** Keys that have a row. */
const MOST_ROWS = 100;
/** Milliseconds by which the pace of a waitlist is told. */
const PACE_OVER = 900_000;

/** Seconds until nothing waits, at the pace of a change; null where it does not shrink, or is not known. */
function drainSeconds(waiting: number, change: Change | null): number | null {
  if (waiting === 0) return 0;
  return change && change.by < 0 ? Math.round((waiting * change.overSeconds) / -change.by) : null;
}

/** The larger share of what is allowed that is used; null where neither is known. */
function saturation({ parallelismLimit, parallelismInUse, rateLimit, rateUsed }: Omit<Row, 'saturation'>) {
  const shares = [
    [parallelismInUse, parallelismLimit],
    [rateUsed, rateLimit],
  ].flatMap(([used, limit]) => (typeof used === 'number' && limit ? [used / limit] : []));
  return shares.length === 0 ? null : Math.max(...shares);
}

/** Waitlists by flow-control key. */
export function flowControl({ enabled, data }: Truth, shown: Shown, recent: Recent): FlowControl {
  const waiting = byLabel(shown, waitlistSize, 'flow_control_key');
  const of = (family: (typeof PER_KEY)[keyof typeof PER_KEY]) => byLabel(shown, family, 'flow_control_key');
  const each = {
    parallelismLimit: of(PER_KEY.parallelismLimit),
    parallelismInUse: of(PER_KEY.parallelismInUse),
    rateLimit: of(PER_KEY.rateLimit),
    rateUsed: of(PER_KEY.rateUsed),
    ratePeriodSeconds: of(PER_KEY.ratePeriod),
    paused: of(PER_KEY.paused),
    since: of(PER_KEY.stateSince),
    ghostSlots: of(PER_KEY.ghostSlots),
    timeToDrain: of(PER_KEY.timeToDrain),
  };
  const states = new Map(shown.of(state).map(({ labels }) => [labels.flow_control_key?.toWellFormed(), labels]));
  function row([key, size]: readonly [string, number]): Row {
    const change = recent.change(seriesName(waitlistSize.name, { flow_control_key: key }), size, PACE_OVER);
    const paused = each.paused.get(key);
    const known = {
      key,
      waiting: size,
      change,
      state: FLOW_STATES.find(name => name === states.get(key)?.state) ?? null,
      stateReason: FLOW_REASONS.find(name => name === states.get(key)?.reason) ?? null,
      stateSince: isoSeconds(each.since.get(key)),
      ghostSlots: orNull(each.ghostSlots.get(key)),
      drainSeconds: each.timeToDrain.get(key) ?? drainSeconds(size, change),
      parallelismLimit: orNull(each.parallelismLimit.get(key)),
      parallelismInUse: orNull(each.parallelismInUse.get(key)),
      rateLimit: orNull(each.rateLimit.get(key)),
      rateUsed: orNull(each.rateUsed.get(key)),
      ratePeriodSeconds: orNull(each.ratePeriodSeconds.get(key)),
      paused: paused === undefined ? null : paused === 1,
    };
    return { ...known, saturation: saturation(known) };
  }
  const known = shown.one(keys);
  const named = [...waiting].filter(([key]) => key !== OTHER);
  const largest = named.sort(([a, sizeOfA], [b, sizeOfB]) => sizeOfB - sizeOfA || (a < b ? -1 : 1));
  return {
    enabled,
    data,
    keys: orNull(known),
    waiting: known === undefined ? null : sum(waiting.values()),
    beyondCap: byLabel(shown, seriesDropped, 'family').get(waitlistSize.name) ?? 0,
    beyondCapWaiting: waiting.get(OTHER) ?? 0,
    rows: largest.slice(0, MOST_ROWS).map(row),
  };
}
