import { type EventsFacts, events } from '../../collectors/events/events.ts';
import type { Family, Sample } from '../../metrics/family.ts';
import type { SeriesFile } from './series-file.ts';

/** Anomalies of the log happen when it is read: the log itself does not contain them. */
const OF_READING: ReadonlySet<string> = new Set(['gaps', 'late', 'duplicates']);

/** Families that the log determines, by their keys. */
const WRITTEN: ReadonlyMap<string, Family> = new Map(
  Object.entries(events.families).filter(([key, { type }]) => type !== 'gauge' && !OF_READING.has(key)),
);

/** Writes counters and histograms of one account to the file, point by point. */
export interface Recording {
  /** `at`: milliseconds since the Unix epoch. */
  add(at: number, facts: EventsFacts): void;
  readonly points: number;
  readonly first: number | undefined;
  readonly last: number | undefined;
}

interface RecordingOptions {
  readonly account: string;
  /** Whether the account exposes the family of this name. */
  readonly isExposed: (family: string) => boolean;
}

export function createRecording(file: SeriesFile, { account, isExposed }: RecordingOptions): Recording {
  const families = [...WRITTEN].filter(([, { name }]) => isExposed(name));
  const started = new Set<number>();
  const times: number[] = [];

  return {
    add(at, facts) {
      file.begin(at);
      const samples: Readonly<Record<string, readonly Sample[] | undefined>> = events.samples(facts);
      for (const [key, family] of families) {
        for (const sample of samples[key] ?? []) {
          const number = file.of(account, family, sample);
          if (!started.has(number)) file.startAtZero(number);
          started.add(number);
          file.set(number, sample.value);
        }
      }
      times.push(at);
    },
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
