import { createExposition } from '../src/metrics/exposition.ts';
import { processorTime, table, timingsOf } from './measure.ts';
import { createChangingSource } from './series.ts';

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

const CHANGES = [
  { name: 'every account changed', changed: ACCOUNTS },
  { name: 'one account in ten changed', changed: ACCOUNTS / 10 },
  { name: 'one account changed', changed: 1 },
  { name: 'nothing changed', changed: 0 },
];

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
  const exposition = createExposition(accounts.map(({ source }) => source));
  const rows: string[][] = [];
  for (const { name, changed } of CHANGES) {
    for (const gzip of [true, false]) {
      let bytes = 0;
      const times: number[] = [];
      for (let round = 0; round < ROUNDS; round++) {
        for (let i = 0; i < changed; i++) accounts[(i * 9 + round) % ACCOUNTS]?.change();
        const start = processorTime();
        bytes = (await exposition.render({ scope: 'everything', format: 'text', gzip })).length;
        times.push(processorTime() - start);
      }
      const { median, p99 } = timingsOf(times.slice(5));
      rows.push([`${name}, ${gzip ? 'gzip' : 'plain'}`, median.toFixed(2), p99.toFixed(2), String(bytes)]);
    }
  }
  const what = `${ACCOUNTS} accounts × ${FAMILIES} families of 1 to 5 series, in this process, all threads, including the creation of samples`;
  return [
    `Rendering of /metrics: ${what}.`,
    table(['what', 'median ms of processor time', 'p99 ms', 'bytes'], rows),
  ].join('\n\n');
}
