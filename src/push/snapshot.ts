import { BinaryWriter } from '@bufbuild/protobuf/wire';
import type { Clock } from '../kit/clock.ts';
import { createTurns } from '../kit/turns.ts';
import type { Family, Sample, Source } from '../metrics/family.ts';
import { attributesOf, exportRequest, type Origin, type Point, writeHistogram, writeNumber } from './otlp-metrics.ts';
import type { Packet } from './sender.ts';

/** Series of the last push by account and family: the next push ends those that are removed. */
export type Pushed = Map<string, PushedFamily>;

interface PushedFamily {
  readonly account: string | undefined;
  readonly family: Family;
  readonly bounds: readonly number[] | undefined;
  /** Label values in the order of the family's, as JSON. */
  readonly series: Set<string>;
}

export interface SnapshotDeps {
  readonly origin: Origin;
  readonly clock: Pick<Clock, 'now'>;
  failed(source: Source, error: unknown): void;
}

/**
 * Numbers in one request, each bucket counting as one: about half a MB before it is compressed, of the few MB that receivers
 * take, and a few milliseconds of work.
 */
const MOST_NUMBERS = 5000;

/** Requests are made of what was written so far, whenever it is enough for one. */
function createPackets(origin: Origin) {
  const writers = new Map<string, { family: Family; writer: BinaryWriter }>();
  let items = 0;
  let numbers = 0;
  return {
    /** Writes one data point of the family, of so many numbers. */
    add(family: Family, size: number, write: (writer: BinaryWriter) => void): void {
      const known = writers.get(family.name) ?? { family, writer: new BinaryWriter() };
      writers.set(family.name, known);
      write(known.writer);
      numbers += size;
      items += 1;
    },
    isFull: () => numbers >= MOST_NUMBERS,
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

function labelsFrom({ labels }: Family, key: string): Record<string, string | undefined> {
  const values = JSON.parse(key) as (string | null)[];
  return Object.fromEntries(labels.map((label, index) => [label, values[index] ?? undefined]));
}

function writeEnd(writer: BinaryWriter, point: Point, bounds: readonly number[] | undefined): void {
  if (bounds) {
    const state = { counts: Array<number>(bounds.length + 1).fill(0), sum: 0 };
    writeHistogram(writer, point, { bounds, state }, undefined);
  } else writeNumber(writer, point, undefined);
}

/**
 * Everything that the sources say now, as requests of bounded size, in their order; each is made when it is asked for, and other
 * work goes on meanwhile. Then, once, what was in `pushed` and is no longer there; `pushed` is then what was sent.
 */
export async function* takeSnapshot(
  sources: readonly Source[],
  pushed: Pushed,
  { origin, clock, failed }: SnapshotDeps,
): AsyncGenerator<Packet, void, void> {
  const time = clock.now();
  const turns = createTurns();
  const packets = createPackets(origin);
  const now: Pushed = new Map();

  /** What is known of one family of an account; several sources may have series of it. */
  function knownOf(account: string | undefined, family: Family, bounds: readonly number[] | undefined): PushedFamily {
    const id = `${account ?? ''}\0${family.name}`;
    const known = now.get(id) ?? { account, family, bounds, series: new Set() };
    now.set(id, known);
    return known;
  }

  /** Writes the series that a sample ends; of those with the same labels the first, as /metrics does. */
  function write(account: string | undefined, family: Family, sample: Sample, sum: number): void {
    const { value, since, whole } = sample;
    const { series } = knownOf(account, family, whole?.bounds);
    const key = keyOf(family, sample);
    if (series.has(key)) return;
    series.add(key);
    const point = { attributes: attributesOf(account, family, sample), since, time };
    packets.add(family, whole?.state.counts.length ?? 1, writer =>
      whole ? writeHistogram(writer, point, whole, sum) : writeNumber(writer, point, value),
    );
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
  for (const [id, { account, family, bounds, series }] of pushed) {
    const still = now.get(id)?.series;
    let seen = 0;
    for (const key of series) {
      seen += 1;
      if (seen % 1000 === 0) yield* packetsIfFull();
      if (still?.has(key)) continue;
      const attributes = attributesOf(account, family, { labels: labelsFrom(family, key), value: 0 });
      packets.add(family, (bounds?.length ?? 0) + 1, writer => writeEnd(writer, { attributes, time }, bounds));
      if (packets.isFull()) yield* packetsIfFull();
    }
  }
  pushed.clear();
  for (const [id, known] of now) pushed.set(id, known);
  const last = packets.take();
  if (last) yield last;
}
