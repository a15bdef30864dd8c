import { FLOW_STATES, type FlowState } from '../../model/flow-state.ts';
import { type FlowControlEntry, KEY_LIMITS, PINNABLE } from '../../model/message.ts';
import type { GlobalParallelism } from '../../model/service.ts';
import { OTHER, seriesDropped } from '../cap.ts';
import { familiesOf, flagValue, optionalSample, toSeconds } from '../collector.ts';
import type { WaitlistSample } from './drain.ts';
import { changeSamples, type TrackedLimits } from './limits.ts';

/** The last read of a key, and the results of all its reads. */
export interface TrackedKey extends FlowControlEntry {
  /** Undefined until it can be decided. */
  readonly state?: FlowState | undefined;
  /** Time of the first of the consecutive reads with this state (ms since the Unix epoch); undefined without a state. */
  readonly since?: number | undefined;
  /** Time until the waitlist is empty (ms); undefined unless it shrinks steadily. */
  readonly drainsIn?: number | undefined;
  /** Samples of the waitlist since its maximum; empty for a paused or idle key. */
  readonly samples?: readonly WaitlistSample[];
}

export interface FlowControlFacts {
  /** Number of distinct keys plus unreadable rows in the list; undefined before the first list. */
  readonly keys: number | undefined;
  readonly shown: readonly TrackedKey[];
  /** Number of selected keys beyond the cap, and number of messages waiting on them. */
  readonly beyondCap: number;
  readonly beyondCapWaiting: number;
  /** Limits of the shown keys and of other keys with changed limits. */
  readonly limits: TrackedLimits;
  /** Parallelism of the account. Empty if unknown; undefined if no message waits or the service does not report it. */
  readonly parallelism?: GlobalParallelism | undefined;
}

/** Returns the time until the waitlist is empty (s); undefined unless it shrinks steadily. */
export const secondsToDrain = ({ drainsIn }: TrackedKey) =>
  drainsIn === undefined ? undefined : Math.round(drainsIn / 1000);

const { gauge, counter } = familiesOf<FlowControlFacts>();

const samplesPerKey = ({ shown }: FlowControlFacts, numberOf: (key: TrackedKey) => number | undefined) =>
  shown.flatMap(key => optionalSample({ flow_control_key: key.key }, numberOf(key)));

const perKey = (name: string, help: string, numberOf: (key: TrackedKey) => number | undefined) =>
  gauge({
    name: `delivery_flow_control_${name}`,
    help,
    labels: ['flow_control_key'],
    pick: facts => samplesPerKey(facts, numberOf),
  });

const waitlistSize = gauge({
  name: 'delivery_flow_control_waitlist_size',
  help: 'Messages or workflow steps waiting on the key.',
  labels: ['flow_control_key'],
  pick(facts) {
    const { beyondCap, beyondCapWaiting } = facts;
    const other = beyondCap > 0 ? [{ labels: { flow_control_key: OTHER }, value: beyondCapWaiting }] : [];
    return [...samplesPerKey(facts, key => key.waitlistSize), ...other];
  },
});

export const flowControlFamilies = {
  waitlistSize,
  keys: gauge({
    name: 'delivery_flow_control_keys',
    help: 'Number of all flow-control keys that the service lists. An unreadable row counts as a key.',
    pick: ({ keys }) => keys,
  }),
  parallelismLimit: perKey(
    'parallelism_limit',
    'Maximum concurrent deliveries for the key.',
    key => key.parallelismLimit,
  ),
  parallelismInUse: perKey('parallelism_in_use', 'Deliveries in progress for the key.', key => key.parallelismInUse),
  rateLimit: perKey('rate_limit', 'Maximum deliveries per rate-limit period for the key.', key => key.rateLimit),
  rateUsed: perKey(
    'rate_used',
    'Deliveries started in the current rate-limit period for the key. Absent if the service’s number is from an earlier period.',
    key => key.rateUsed,
  ),
  ratePeriod: perKey('rate_period_seconds', 'Rate-limit period of the key.', key => key.ratePeriodSeconds),
  paused: perKey('paused', 'Whether deliveries for the key are paused (1) or not (0).', key => flagValue(key.paused)),
  state: gauge({
    name: 'delivery_flow_control_state',
    help: 'Current state of the key. The series of the current state is always 1, and other states have no series.',
    labels: ['flow_control_key', 'state'],
    values: { state: FLOW_STATES },
    pick: ({ shown }) =>
      shown
        .filter(({ state }) => state !== undefined)
        .map(({ key, state }) => ({ labels: { flow_control_key: key, state }, value: 1 })),
  }),
  stateSince: perKey(
    'state_since_timestamp_seconds',
    'Start of the current state of the key. A restart of the agent resets this time.',
    key => toSeconds(key.since),
  ),
  limitChanges: counter({
    name: 'delivery_flow_control_limit_changes_total',
    help: 'Changes of a limit of the key between two reads. A change while the agent was down counts, too. A limit that the service does not report counts as unchanged.',
    labels: ['flow_control_key', 'limit'],
    values: { limit: KEY_LIMITS },
    pick: ({ limits }) => changeSamples(limits),
  }),
  pinned: gauge({
    name: 'delivery_flow_control_pinned',
    help: '1 for each limit of the key that is pinned in the service. A limit that is not pinned has no series.',
    labels: ['flow_control_key', 'limit'],
    values: { limit: PINNABLE },
    pick: ({ shown }) =>
      shown.flatMap(({ key, pinned = [] }) =>
        pinned.map(limit => ({ labels: { flow_control_key: key, limit }, value: 1 })),
      ),
  }),
  timeToDrain: perKey(
    'time_to_drain_seconds',
    'Estimated time until the waitlist of the key is empty. Present only while the waitlist shrinks steadily.',
    secondsToDrain,
  ),
  accountLimit: gauge({
    name: 'delivery_parallelism_limit',
    help: 'Maximum concurrent deliveries of the account. The agent reads this limit only while messages wait on a flow-control key.',
    pick: ({ parallelism }) => parallelism?.limit,
  }),
  accountInUse: gauge({
    name: 'delivery_parallelism_in_use',
    help: 'Deliveries in progress for the account. The agent reads this number only while messages wait on a flow-control key.',
    pick: ({ parallelism }) => parallelism?.inUse,
  }),
  seriesDropped: gauge({
    ...seriesDropped,
    pick: ({ beyondCap }) => [{ labels: { family: waitlistSize.name }, value: beyondCap }],
  }),
};
