import { type EventsFacts, events } from '../../collectors/events/events.ts';
import type { Family, Sample } from '../../metrics/family.ts';
import type { SeriesFile } from './series-file.ts';

/** What the log did to the agent: that happened when it was read, and no log tells it. */
const OF_READING: ReadonlySet<string> = new Set(['gaps', 'late', 'duplicates']);

/** Families that a log tells exactly, by their keys. */
export const TOLD: ReadonlyMap<string, Family> = new Map(
  Object.entries(events.families).filter(([key, { type }]) => type !== 'gauge' && !OF_READING.has(key)),
);

/** Samples of those families. */
export const toldSamples = (facts: EventsFacts): [Family, readonly Sample[]][] => {
  const samples: Readonly<Record<string, readonly Sample[] | undefined>> = events.samples(facts);
  return [...TOLD].map(([key, family]) => [family, samples[key] ?? []]);
};

/** Puts what one account would have shown into the file, point by point. */
export interface Recording {
  add(at: number, facts: EventsFacts): void;
  /** Families that end before `time`, because more would have been more than the agent showed afterwards. */
  endedBefore(time: number): readonly Family[];
  /** Points in time that were written. */
  readonly points: number;
  /** The first and the last of them. */
  readonly first: number | undefined;
  readonly last: number | undefined;
}

interface RecordingOptions {
  readonly account: string;
  /** Whether the account exposes the family of this name. */
  readonly isExposed: (family: string) => boolean;
  /** What the agent showed last before; undefined where there was none. */
  readonly before: EventsFacts | undefined;
  /** Whether something was counted for a destination before: where it was not shown, it goes on from a number that no scrape showed. */
  readonly isKnown: (destination: string) => boolean;
  /** What it showed first afterwards: what comes before it is not more. */
  readonly after: EventsFacts | undefined;
}

const destinationOf = ({ labels }: Sample) => (labels as Readonly<Record<string, string | undefined>>).destination;

export function createRecording(
  file: SeriesFile,
  { account, isExposed, before, isKnown, after }: RecordingOptions,
): Recording {
  const told = (facts: EventsFacts) => toldSamples(facts).filter(([{ name }]) => isExposed(name));
  const ended = new Map<Family, number>();
  const begun = new Set<number>();
  let shown: EventsFacts | undefined;
  const times: number[] = [];
  const limits = new Map<number, number>();
  for (const [family, samples] of after ? told(after) : []) {
    for (const sample of samples) limits.set(file.of(account, family, sample), sample.value);
  }

  for (const [family, samples] of before ? told(before) : []) {
    for (const sample of samples) begun.add(file.of(account, family, sample));
  }

  function wasZero(sample: Sample): boolean {
    const destination = destinationOf(sample);
    return destination === undefined || (shown ?? before)?.destinations.has(destination) || !isKnown(destination);
  }

  function write(at: number, family: Family, samples: readonly Sample[]): void {
    const rows = samples.map(sample => ({ sample, number: file.of(account, family, sample) }));
    const isMore = ({ sample, number }: (typeof rows)[number]) =>
      sample.suffix !== '_sum' && sample.value > (limits.get(number) ?? Number.POSITIVE_INFINITY);
    if (rows.some(isMore)) {
      ended.set(family, at);
      return;
    }
    for (const { sample, number } of rows) {
      if (!begun.has(number) && wasZero(sample)) file.startAtZero(number);
      begun.add(number);
      // Of numbers with fractions, the same ones in another order may add up to a little more.
      file.set(number, Math.min(sample.value, limits.get(number) ?? sample.value));
    }
  }

  return {
    add(at, facts) {
      file.begin(at);
      for (const [family, samples] of told(facts)) if (!ended.has(family)) write(at, family, samples);
      shown = facts;
      times.push(at);
    },
    endedBefore: time => [...ended].flatMap(([family, at]) => (at <= time ? [family] : [])),
    get points() {
      return times.length;
    },
    get first() {
      return times[0];
    },
    get last() {
      return times.at(-1);
    },
  };
}
