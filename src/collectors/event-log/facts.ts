import type { EventState } from '../../model/message.ts';
import { inFlight } from './lifecycle.ts';
import type { Memory } from './memory.ts';
import type { DestinationTally, LogTally } from './tally.ts';

/** What is shown of one account's event log. Never changed once made. Times: milliseconds since the Unix epoch. */
export interface EventsFacts {
  /** Undefined until the recent past was read. */
  readonly recent: Readonly<Record<EventState, number>> | undefined;
  readonly windowMs: number;
  readonly newest: number | undefined;
  readonly inFlight: number;
  readonly oldestInFlight: number | undefined;
  readonly log: LogTally;
  readonly destinations: ReadonlyMap<string, DestinationTally>;
  /** Destinations that were met beyond the cap. */
  readonly beyondCap: number;
  /** Whether destinations are a label, of counters and of the histograms of waits. */
  readonly labelled: { readonly counters: boolean; readonly histograms: boolean };
}

interface FactsOptions {
  /** Milliseconds. */
  readonly window: number;
  readonly destination: string;
  readonly destinationHistograms: boolean;
}

/** `isComplete`: the log was read to its end, so that gauges will be shown. */
export function toFacts(
  memory: Memory,
  { window, destination, destinationHistograms }: FactsOptions,
  isComplete: boolean,
): EventsFacts {
  const { count, oldest } = isComplete ? inFlight(memory) : { count: 0, oldest: undefined };
  const { checkpoint, recent } = memory;
  const counters = destination !== 'none';
  return {
    recent: isComplete && checkpoint ? recent?.since(checkpoint.readTo - window) : undefined,
    windowMs: window,
    newest: checkpoint?.newest,
    inFlight: count,
    oldestInFlight: oldest,
    log: structuredClone(memory.log),
    destinations: new Map([...memory.destinations.placed].map(([name, { tally }]) => [name, structuredClone(tally)])),
    beyondCap: memory.destinations.beyond,
    labelled: { counters, histograms: counters && destinationHistograms },
  };
}
