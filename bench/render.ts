import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire';
import * as writer from '../src/metrics/exposition.ts';
import { PROTOBUF } from '../src/metrics/exposition-protobuf.ts';
import { processorTime, table, timingsOf } from './measure.ts';
import {
  accountName,
  createChangingSource,
  SERIES,
  ACCOUNTS as SERIES_ACCOUNTS,
  samplesOf,
  families as seriesFamilies,
} from './series.ts';

type Family = import('../src/metrics/family.ts').Family;
type Sample = import('../src/metrics/family.ts').Sample;

const ACCOUNTS = 1000;
const FAMILIES = 30;
const ROUNDS = 40;

const families = Array.from({ length: FAMILIES }, (_, index) => ({
  name: `delivery_some_family_number_${index}_messages`,
  type: 'gauge' as const,
  help: 'A family of a few series.',
  labels: ['state'],
}));
const STATES = ['in_progress', 'success', 'fail', 'canceled', 'unknown'];

/** Measures rendering a thousand accounts with thirty small families each, without HTTP. */
export async function run(): Promise<string> {
  const accounts = Array.from({ length: ACCOUNTS }, (_, account) =>
    createChangingSource(
      `production-${account}`,
      families,
      version =>
        new Map(
          families.map(({ name }, index) => [
            name,
            STATES.slice(index % STATES.length).map((state, at) => ({
              labels: { state },
              value: (account * 7919 + version * 104_729 + at) % 9973,
            })),
          ]),
        ),
    ),
  );
  const exposition = writer.createExposition(accounts.map(({ source }) => source));
  const rows = [
    { name: 'every account changed', changed: ACCOUNTS },
    { name: 'one account in ten changed', changed: ACCOUNTS / 10 },
    { name: 'one account changed', changed: 1 },
    { name: 'nothing changed', changed: 0 },
  ].flatMap(({ name, changed }) =>
    (['text', 'protobuf'] as const).flatMap(format =>
      [true, false].map(gzip => {
        let bytes = 0;
        const times = Array.from({ length: ROUNDS }, (_, round) => {
          for (let i = 0; i < changed; i++) accounts[(i * 9 + round) % ACCOUNTS]?.change();
          const start = processorTime();
          bytes = exposition.render({ scope: 'everything', format, gzip }).length;
          return processorTime() - start;
        });
        const { median, p99 } = timingsOf(times.slice(5));
        const what = `${name}, ${format}, ${gzip ? 'gzip' : 'plain'}`;
        return [what, median.toFixed(2), p99.toFixed(2), String(bytes)];
      }),
    ),
  );
  const what = `${ACCOUNTS} accounts × ${FAMILIES} families of 1 to 5 series, in this process, including the creation of samples`;
  return [
    `Rendering of /metrics: ${what}.`,
    table(['what', 'median ms of processor time', 'p99 ms', 'bytes'], rows),
    await compareWriters(),
  ].join('\n\n');
}

/** Compares the exporter's protobuf writer with `BinaryWriter` of @bufbuild/protobuf on the samples of bench/series.ts. */
async function compareWriters(): Promise<string> {
  const inputs = Array.from({ length: SERIES_ACCOUNTS }, (_, account) => ({
    account: accountName(account),
    samples: samplesOf(account, 0),
  }));
  const writers: readonly [string, (family: Family, account: string, samples: readonly Sample[]) => Uint8Array][] = [
    [
      'our writer (byte strings)',
      (family, account, samples) =>
        Buffer.from(PROTOBUF.samples({ key: family.name, family }, account, 'protobuf')(samples), 'latin1'),
    ],
    ['BinaryWriter of @bufbuild/protobuf', writeByLibrary],
  ];
  const rows = writers.map(([name, write]) => {
    let bytes = 0;
    const times = Array.from({ length: ROUNDS }, () => {
      const start = processorTime();
      bytes = 0;
      for (const { account, samples } of inputs) {
        for (const family of seriesFamilies) bytes += write(family, account, samples.get(family.name) ?? []).length;
      }
      return processorTime() - start;
    });
    const { median, p99 } = timingsOf(times.slice(5));
    return [name, median.toFixed(2), p99.toFixed(2), String(bytes)];
  });
  const head = `${SERIES_ACCOUNTS * SERIES} gauges and counters written as messages, without cached fragments.`;
  return `${head}\n\n${table(['writer', 'median ms of processor time', 'p99 ms', 'bytes'], rows)}`;
}

function writeByLibrary(family: Family, account: string, samples: readonly Sample[]): Uint8Array {
  const writer = new BinaryWriter();
  const open = (field: number) => writer.tag(field, WireType.LengthDelimited).fork();
  const label = (name: string, value: string) => {
    open(1).tag(1, WireType.LengthDelimited).string(name);
    writer.tag(2, WireType.LengthDelimited).string(value).join();
  };
  for (const { labels, value } of samples) {
    const named: Readonly<Record<string, string | undefined>> = labels;
    open(4);
    label('account', account);
    for (const name of family.labels) label(name, named[name] ?? '');
    open(family.type === 'counter' ? 3 : 2)
      .tag(1, WireType.Bit64)
      .double(value)
      .join()
      .join();
  }
  return writer.finish();
}
