import { BinaryWriter } from '@bufbuild/protobuf/wire';
import type { Clock } from '../kit/clock.ts';
import { createYielder } from '../kit/yielder.ts';
import type { Family, Sample, Source } from '../metrics/family.ts';
import {
  attributesOf,
  type DataPoint,
  exportRequest,
  type Origin,
  writeHistogram,
  writeNumber,
} from './otlp-metrics.ts';
import type { Packet } from './sender.ts';

/** Series of the last push, by account and family. The next push marks those that are missing as ended. */
export type PushedSeries = Map<string, PushedFamily>;

interface PushedFamily {
  readonly account: string | undefined;
  readonly family: Family;
  readonly bounds: readonly number[] | undefined;
  /** Label values in the order of the family's labels, as JSON. */
  readonly series: Set<string>;
}

export interface SnapshotDeps {
  readonly origin: Origin;
  readonly clock: Pick<Clock, 'now'>;
  failed(source: Source, error: unknown): void;
}

/**
 * Maximum number of values in one request, including histogram buckets. Encoding such a request takes a few milliseconds. It is
 * about half a megabyte; receivers accept several megabytes.
 */
const MAX_NUMBERS = 5000;

function createPackets(origin: Origin) {
  const writers = new Map<string, { family: Family; writer: BinaryWriter }>();
  let items = 0;
  let numbers = 0;
  return {
    /** Writes one data point. `size`: its number of values. */
    add(family: Family, size: number, write: (writer: BinaryWriter) => void): void {
      const entry = writers.get(family.name) ?? { family, writer: new BinaryWriter() };
      writers.set(family.name, entry);
      write(entry.writer);
      numbers += size;
      items += 1;
    },
    isFull: () => numbers >= MAX_NUMBERS,
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

/** Returns a series key. Empty and missing labels yield the same key. Lone surrogates become U+FFFD, as in the request. */
const keyOf = ({ labels }: Family, sample: Sample) =>
  JSON.stringify(labels.map(label => sample.labels[label]?.toWellFormed() || null));

function labelsFrom({ labels }: Family, key: string): Record<string, string | undefined> {
  const values = JSON.parse(key) as (string | null)[];
  return Object.fromEntries(labels.map((label, index) => [label, values[index] ?? undefined]));
}

function writeEnd(writer: BinaryWriter, point: DataPoint, bounds: readonly number[] | undefined): void {
  if (bounds) {
    const state = { counts: Array<number>(bounds.length + 1).fill(0), sum: 0 };
    writeHistogram(writer, point, { bounds, state }, undefined);
  } else writeNumber(writer, point, undefined);
}

/**
 * Yields requests of bounded size with the sources' samples, and with end markers for series of `pushed` that are now missing.
 * Then replaces `pushed` with the current series. Encodes lazily and yields to the event loop in between.
 */
export async function* takeSnapshot(
  sources: readonly Source[],
  pushed: PushedSeries,
  { origin, clock, failed }: SnapshotDeps,
): AsyncGenerator<Packet, void, void> {
  const time = clock.now();
  const turns = createYielder();
  const packets = createPackets(origin);
  const current: PushedSeries = new Map();

  /** Returns the current entry of an account's family, to which several sources may add series. */
  function entryOf(account: string | undefined, family: Family, bounds: readonly number[] | undefined): PushedFamily {
    const id = `${account ?? ''}\0${family.name}`;
    const entry = current.get(id) ?? { account, family, bounds, series: new Set() };
    current.set(id, entry);
    return entry;
  }

  /** Writes one series. The first series with the same labels wins, as on /metrics. */
  function write(account: string | undefined, family: Family, sample: Sample, sum: number): void {
    const { value, since, whole } = sample;
    const { series } = entryOf(account, family, whole?.bounds);
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
        // Checking the size after every sample is unnecessary: thousands are written per millisecond.
        if (written % 100 === 0) yield* packetsIfFull();
      }
    } catch (error) {
      failed(source, error);
    }
    yield* packetsIfFull();
  }
  for (const [id, { account, family, bounds, series }] of pushed) {
    const remaining = current.get(id)?.series;
    let checked = 0;
    for (const key of series) {
      checked += 1;
      if (checked % 1000 === 0) yield* packetsIfFull();
      if (remaining?.has(key)) continue;
      const attributes = attributesOf(account, family, { labels: labelsFrom(family, key), value: 0 });
      packets.add(family, (bounds?.length ?? 0) + 1, writer => writeEnd(writer, { attributes, time }, bounds));
      if (packets.isFull()) yield* packetsIfFull();
    }
  }
  const last = packets.take();
  if (last) yield last;
  // A reload may interrupt the export at any yield. In that case, the next snapshot must contain the end markers again.
  pushed.clear();
  for (const [id, entry] of current) pushed.set(id, entry);
}
