import { BoundedMap } from '../kit/bounded-map.ts';

/** A list that the service may omit from a response if it is empty. */
export type AccountList = 'dlq' | 'events' | 'flow_control' | 'schedules' | 'queues' | 'runs';

/** Number of consecutive rounds without a list after which it counts as empty. */
const AGREEING_ROUNDS = 3;
/** Maximum number of reads for which the latest round is kept. Only a hostile service omits the lists of more reads. */
const MAX_READS = 10_000;

interface LatestRound {
  readonly id: object;
  /** Number of consecutive earlier rounds in which a response contained no list. */
  readonly before: number;
  isMissing: boolean;
}

/**
 * Returns whether a response of a read is valid. `read`: name of the read; only rounds with the same read can agree. `isMissing`:
 * the response contains no list, as `{}`.
 */
export type AcceptList = (list: AccountList, read: string, isMissing: boolean) => boolean;

export type MissingLists = ReturnType<typeof createMissingLists>;

/**
 * Decides which responses without a list count as an empty list. Once the service has returned the account's list, even an
 * empty one, such a response is invalid until three consecutive rounds agree. `before`: lists that an earlier process has read.
 */
export function createMissingLists(before: readonly AccountList[] = []) {
  const listed = new Set(before);
  const latest = new BoundedMap<string, LatestRound>(MAX_READS);
  return {
    listed: (): readonly AccountList[] => [...listed].sort(),
    /** Creates the check of one round's responses. */
    createRound(): AcceptList {
      const id = {};
      return (list, read, isMissing) => {
        if (!isMissing) listed.add(list);
        const key = `${list} ${read}`;
        let round = latest.get(key);
        if (!listed.has(list) || !(isMissing || round)) return true;
        if (round?.id !== id) round = { id, before: round?.isMissing ? round.before + 1 : 0, isMissing };
        round.isMissing ||= isMissing;
        latest.set(key, round);
        return !isMissing || round.before >= AGREEING_ROUNDS - 1;
      };
    },
    /** Checks a response of a read outside rounds. Such reads never count as agreeing rounds. */
    acceptOutside(list: AccountList, _read: string, isMissing: boolean): boolean {
      if (!isMissing) listed.add(list);
      return !isMissing || !listed.has(list);
    },
  };
}
