import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Silence } from '../model/callback.ts';
import type { Reader } from '../upstream/api.ts';
import type { Judged } from './judge.ts';
import { lookForEvents } from './look.ts';

/** The newest events of those that lack nothing else, as far as there is room after a walk. */
export type EventLookUps = ReturnType<typeof createEventLookUps>;

/** Messages whose events are read after one walk. */
const MOST_LOOKUPS = 25;

export function createEventLookUps(deps: { readonly reader: Reader; readonly clock: Clock; readonly log: Log }) {
  const { reader, clock, log } = deps;
  const said = new Map<string, Silence>();
  let isCarried = false;
  /** What is known was said at the walk before. */
  let wasCarried = false;
  /** When the events of an entry were last asked for, on the monotonic clock, and what was said. */
  let asked = new Map<string, { readonly at: number; readonly said: Silence['lastEventAt'] }>();

  return {
    /** What was said of an entry at this walk; undefined when it was not asked about. */
    of: (entryId: string): Silence | undefined => said.get(entryId),
    /** A walk is decided upon: what was said at an earlier one is not known now. */
    begin(): void {
      if (!isCarried) said.clear();
      [wasCarried, isCarried] = [isCarried, false];
    },
    /** The next walk has come before this one was decided upon, because the log is slow: what was said holds for that one, as of when it was asked. */
    carryOver(): void {
      isCarried = true;
    },
    /**
     * Asks, in turn, those first about which something is left to decide, until the next walk has come. Where that happened
     * at the last walk nothing is asked at this one: a log that answers late must not put off each decision to the next walk.
     * Gives how many it had no room for that may be silent.
     */
    async ask(
      lacking: readonly Judged[],
      isDecided: (judged: Judged) => boolean,
      isOvertaken: () => boolean,
      signal: AbortSignal,
    ): Promise<number> {
      const before = asked;
      const lastAsked = ({ sighting }: Judged) => before.get(sighting.entry.id)?.at ?? -1;
      const sorted = lacking.toSorted(
        (a, b) => Number(isDecided(a)) - Number(isDecided(b)) || lastAsked(a) - lastAsked(b),
      );
      if (!wasCarried) {
        asked = new Map(
          lacking.flatMap(({ sighting: { entry } }) => {
            const known = before.get(entry.id);
            return known ? [[entry.id, known] as const] : [];
          }),
        );
        for (const { sighting } of sorted.slice(0, MOST_LOOKUPS)) {
          if (isOvertaken()) break;
          const { entry } = sighting;
          const silence = await lookForEvents(reader, entry, { now: clock.now, log }, signal);
          said.set(entry.id, silence);
          asked.set(entry.id, { at: clock.monotonic(), said: silence.lastEventAt });
        }
      }
      const mayBeSilent = (each: Judged) => !isDecided(each) && asked.get(each.sighting.entry.id)?.said !== 'none';
      return sorted.filter(each => !said.has(each.sighting.entry.id) && mayBeSilent(each)).length;
    },
  };
}
