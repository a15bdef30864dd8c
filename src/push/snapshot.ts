import { BinaryWriter } from '@bufbuild/protobuf/wire';
import type { Clock } from '../kit/clock.ts';
import { createTurns } from '../kit/turns.ts';
import {
  createNative,
  type Family,
  isComplete,
  type NativeHistogram,
  roundSum,
  type Sample,
  type Source,
  type WholeHistogram,
} from '../metrics/family.ts';
import type { Histograms } from './options.ts';
import {
  attributesOf,
  exportRequest,
  type Origin,
  type Point,
  writeExponential,
  writeHistogram,
  writeNumber,
} from './otlp-metrics.ts';
import type { Packet } from './sender.ts';

/** How a series is written: a number, a histogram with these bounds, or one with exponential buckets. */
type Kind = undefined | 'exponential' | readonly number[];

/** Series that were pushed last, by account, family and kind, so that those that are gone are said to be. */
export type Pushed = Map<string, PushedFamily>;

interface PushedFamily {
  readonly account: string | undefined;
  readonly family: Family;
  readonly kind: Kind;
  /** Label values in the order of the family's, as JSON. */
  readonly series: Set<string>;
}

export interface SnapshotDeps {
  readonly origin: Origin;
  readonly histograms: Histograms;
  readonly clock: Pick<Clock, 'now'>;
  /** What a source throws; it is then left out. */
  failed(source: Source, error: unknown): void;
}

/**
 * Numbers in one request, each bucket counting as one: about half a MB before it is compressed, of the few MB that receivers
 * take, and a few milliseconds of work.
 */
const MOST_NUMBERS = 5000;

/** Requests are made of what was written so far, whenever it is enough for one. */
function createPackets(origin: Origin) {
  const writers = new Map<string, { family: Family; isExponential: boolean; writer: BinaryWriter }>();
  let items = 0;
  let numbers = 0;
  return {
    /** Writes one data point of the family, of so many numbers. */
    add(family: Family, kind: Kind, size: number, write: (writer: BinaryWriter) => void): void {
      const isExponential = kind === 'exponential';
      const key = `${family.name} ${isExponential}`;
      const known = writers.get(key) ?? { family, isExponential, writer: new BinaryWriter() };
      writers.set(key, known);
      write(known.writer);
      numbers += size;
      items += 1;
    },
    isFull: () => numbers >= MOST_NUMBERS,
    /** The request; undefined where nothing was added. */
    take(): Packet | undefined {
      if (items === 0) return undefined;
      const metrics = [...writers.values()].map(({ writer, ...metric }) => ({ ...metric, points: writer.finish() }));
      const packet = { body: exportRequest(origin, metrics), items };
      writers.clear();
      [items, numbers] = [0, 0];
      return packet;
    },
  };
}

/** A label without a text is the same as none, and lone surrogates become U+FFFD, as they do when they are sent. */
const keyOf = ({ labels }: Family, sample: Sample) =>
  JSON.stringify(labels.map(label => sample.labels[label]?.toWellFormed() || null));

/** Labels of a series from its key. */
function labelsFrom({ labels }: Family, key: string): Record<string, string | undefined> {
  const values = JSON.parse(key) as (string | null)[];
  return Object.fromEntries(labels.map((label, index) => [label, values[index] ?? undefined]));
}

/** A histogram with exponential buckets; where those began later than the others, it says what came since. */
function writeNative(
  writer: BinaryWriter,
  point: Point,
  native: NativeHistogram,
  { state: { exemplars = [] } }: WholeHistogram,
  sum: number,
): void {
  const { later } = native;
  if (later) {
    const fresh = exemplars.filter(exemplar => exemplar && exemplar.time >= later.since);
    writeExponential(writer, { ...point, since: later.since }, native, fresh, roundSum(later.sum));
  } else writeExponential(writer, point, native, exemplars, sum);
}

const sizeOfEnd = (kind: Kind) => (Array.isArray(kind) ? kind.length + 1 : 1);

/** Says that a series has ended. */
function writeEnd(writer: BinaryWriter, point: Point, kind: Kind): void {
  if (kind === undefined) writeNumber(writer, point, undefined);
  else if (kind === 'exponential') writeExponential(writer, point, createNative(), [], undefined);
  else {
    const state = { counts: Array<number>(kind.length + 1).fill(0), sum: 0 };
    writeHistogram(writer, point, { bounds: kind, state }, undefined);
  }
}

/**
 * Everything that the sources say now, as requests of bounded size, in their order; each is made when it is asked for, and other
 * work goes on meanwhile. Then, once, what was in `pushed` and is no longer there; `pushed` is then what was sent.
 */
export async function* takeSnapshot(
  sources: readonly Source[],
  pushed: Pushed,
  { origin, histograms, clock, failed }: SnapshotDeps,
): AsyncGenerator<Packet, void, void> {
  const time = clock.now();
  const turns = createTurns();
  const packets = createPackets(origin);
  const now: Pushed = new Map();

  /** What is known of one family of an account; several sources may have series of it. */
  function knownOf(account: string | undefined, family: Family, kind: Kind): PushedFamily {
    const id = `${account ?? ''}\0${family.name}${kind === 'exponential' ? '\0exponential' : ''}`;
    const known = now.get(id) ?? { account, family, kind, series: new Set() };
    now.set(id, known);
    return known;
  }

  /** The exponential buckets of a sample, where they are asked for and have all values. */
  const nativeOf = ({ value, whole }: Sample) => {
    const native = histograms === 'base2_exponential_bucket_histogram' ? whole?.state.native : undefined;
    return native && isComplete(native, value) ? native : undefined;
  };

  /** Writes the series that a sample ends; of those with the same labels the first, as /metrics does. */
  function write(account: string | undefined, family: Family, sample: Sample, sum: number): void {
    const { value, since, whole } = sample;
    const native = nativeOf(sample);
    const kind = native ? 'exponential' : whole?.bounds;
    const { series } = knownOf(account, family, kind);
    const key = keyOf(family, sample);
    if (series.has(key)) return;
    series.add(key);
    const point = { attributes: attributesOf(account, family, sample), since, time };
    if (native && whole) {
      const size = native.counts.length + 2;
      packets.add(family, kind, size, writer => writeNative(writer, point, native, whole, sum));
    } else {
      packets.add(family, kind, whole?.state.counts.length ?? 1, writer =>
        whole ? writeHistogram(writer, point, whole, sum) : writeNumber(writer, point, value),
      );
    }
  }

  function* samplesOf(source: Source): Generator<readonly [Family, Sample, number]> {
    const samples = source.samples();
    for (const family of source.families) {
      let sum = 0;
      for (const sample of samples.get(family.name) ?? []) {
        if (sample.suffix === '_sum') sum = sample.value;
        if (sample.suffix === undefined || sample.whole) yield [family, sample, sum];
      }
    }
  }

  async function* packetsIfFull(): AsyncGenerator<Packet, void, void> {
    const packet = packets.isFull() ? packets.take() : undefined;
    if (packet) yield packet;
    const pause = turns.pass();
    if (pause) await pause;
  }

  for (const source of sources) {
    try {
      let written = 0;
      for (const [family, sample, sum] of samplesOf(source)) {
        write(source.account, family, sample, sum);
        written += 1;
        // Not for each: some thousand are written in a millisecond or two.
        if (written % 100 === 0) yield* packetsIfFull();
      }
    } catch (error) {
      failed(source, error);
    }
    yield* packetsIfFull();
  }
  // `pushed` is changed at the end alone: an export may be broken off by a reload.
  for (const [id, { account, family, kind, series }] of pushed) {
    const still = now.get(id)?.series;
    let seen = 0;
    for (const key of series) {
      seen += 1;
      if (seen % 1000 === 0) yield* packetsIfFull();
      if (still?.has(key)) continue;
      const attributes = attributesOf(account, family, { labels: labelsFrom(family, key), value: 0 });
      packets.add(family, kind, sizeOfEnd(kind), writer => writeEnd(writer, { attributes, time }, kind));
      if (packets.isFull()) yield* packetsIfFull();
    }
  }
  pushed.clear();
  for (const [id, known] of now) pushed.set(id, known);
  const last = packets.take();
  if (last) yield last;
}
