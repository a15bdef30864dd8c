import type { Gauges, Memory } from './memory.ts';
import type { DestinationTally, LogTally } from './tally.ts';

/** What is shown of one account's event log. Never changed once made. */
export interface EventsFacts {
  /** As of the last complete read; undefined before the first of this process. */
  readonly gauges: Gauges | undefined;
  readonly windowMs: number;
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

export function toFacts(
  { gauges, log, destinations }: Memory,
  { window, destination, destinationHistograms }: FactsOptions,
): EventsFacts {
  const counters = destination !== 'none';
  return {
    gauges,
    windowMs: window,
    log: structuredClone(log),
    destinations: destinations.copies(),
    beyondCap: destinations.beyond,
    labelled: { counters, histograms: counters && destinationHistograms },
  };
}
