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
  /** The last of them. */
  readonly last: number | undefined;
}

interface RecordingOptions {
  readonly account: string;
  /** What the agent showed last before; destinations that it knew do not begin at 0. */
  readonly before: EventsFacts | undefined;
  /** What it showed first afterwards: what comes before it is not more. */
  readonly after: EventsFacts | undefined;
}

const destinationOf = ({ labels }: Sample) => (labels as Readonly<Record<string, string | undefined>>).destination;

export function createRecording(file: SeriesFile, { account, before, after }: RecordingOptions): Recording {
  const ended = new Map<Family, number>();
  const begun = new Set<number>();
  let shown: EventsFacts | undefined;
  let [points, last]: [number, number | undefined] = [0, undefined];
  const limits = new Map<number, number>();
  for (const [family, samples] of after ? toldSamples(after) : []) {
    for (const sample of samples) limits.set(file.of(account, family, sample), sample.value);
  }

  /** One that had its place before may go on from where it stood. */
  function isNew(sample: Sample): boolean {
    const destination = destinationOf(sample) ?? '';
    return shown?.destinations.has(destination) || !before?.destinations.has(destination);
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
      if (!begun.has(number) && isNew(sample)) file.startAtZero(number);
      begun.add(number);
      // Of numbers with fractions, the same ones in another order may add up to a little more.
      file.set(number, Math.min(sample.value, limits.get(number) ?? sample.value));
    }
  }

  return {
    add(at, facts) {
      file.begin(at);
      for (const [family, samples] of toldSamples(facts)) if (!ended.has(family)) write(at, family, samples);
      shown = facts;
      points += 1;
      last = at;
    },
    endedBefore: time => [...ended].flatMap(([family, at]) => (at <= time ? [family] : [])),
    get points() {
      return points;
    },
    get last() {
      return last;
    },
  };
}
