import { describe, expect, it } from 'vitest';
import type { DlqSeed } from '../../../src/emulator/added.ts';
import { DLQ_FILTERS } from '../../../src/upstream/api.ts';
import { emulateEmpty } from '../../support/emulate.ts';
import { createFilterAgent } from './filter-agent.ts';

// A recent time, because the emulated service deletes old entries.
const START = Date.now() - 3_600_000;

/** A filter value, rows that match it, and rows that differ in case, extend it, or differ completely. */
interface Case {
  readonly value: string | number;
  readonly matching: readonly DlqSeed[];
  readonly otherCase?: DlqSeed;
  readonly longer?: DlqSeed;
  readonly other: DlqSeed;
}

const texts = (field: string): Case => ({
  value: 'nightly',
  matching: [{ [field]: 'nightly' }, { [field]: 'nightly' }],
  otherCase: { [field]: 'Nightly' },
  longer: { [field]: 'nightly-eu' },
  other: { [field]: 'daily' },
});

const at = (minutes: number) => ({ enteredAt: START + minutes * 60_000, createdAt: START + minutes * 60_000 });

const CASES: Readonly<Record<(typeof DLQ_FILTERS)[number], Case>> = {
  messageId: { ...texts('messageId'), matching: [{ messageId: 'nightly' }] },
  url: {
    value: 'https://api.example.com/jobs',
    matching: [{ url: 'https://api.example.com/jobs' }],
    otherCase: { url: 'https://api.example.com/Jobs' },
    longer: { url: 'https://api.example.com/jobs/7' },
    other: { url: 'https://api.example.com/' },
  },
  topicName: texts('topicName'),
  scheduleId: texts('scheduleId'),
  queueName: texts('queueName'),
  api: texts('api'),
  label: { ...texts('label'), matching: [{ label: 'nightly' }, { labels: ['eu', 'nightly'] }], other: {} },
  responseStatus: { value: 500, matching: [{ responseStatus: 500 }], other: { responseStatus: 503 } },
  callerIp: {
    value: '198.51.100.2',
    matching: [{ callerIP: '198.51.100.2' }],
    longer: { callerIP: '198.51.100.20' },
    other: { callerIP: '203.0.113.1' },
  },
  fromDate: { value: START, matching: [at(0), at(1)], other: at(-1) },
  toDate: { value: START, matching: [at(0), at(-1)], other: at(1) },
};

const PROBLEMS = {
  ignored: (parameter: string) => `the service ignores the parameter ${parameter}: `,
  'any-case': (parameter: string) =>
    `the service matches the parameter ${parameter} as a prefix or regardless of case: `,
  prefix: (parameter: string) => `the service matches the parameter ${parameter} as a prefix or regardless of case: `,
} as const;

async function read(parameter: (typeof DLQ_FILTERS)[number], way: 'exact' | keyof typeof PROBLEMS) {
  const { value, matching, otherCase, longer, other } = CASES[parameter];
  const emulated = await emulateEmpty({ dialect: { filters: { [parameter]: way } } });
  const rows = [...matching, ...(otherCase ? [otherCase] : []), ...(longer ? [longer] : []), other];
  for (const row of rows) emulated.state.addDlqEntry(row);
  emulated.state.addDlqEntry({ ...other, flowControlKey: 'k', method: 'PUT', responseStatus: 418 });
  const filters = [
    { name: 'tried', match: { [parameter]: value } },
    {
      name: 'other',
      match: parameter === 'responseStatus' ? { url: 'https://added.example.com/' } : { responseStatus: 418 },
    },
  ];
  const agent = await createFilterAgent({ url: emulated.url, token: emulated.token, filters });
  await agent.round('full');
  return { agent, all: rows.length + 1, matching: matching.length };
}

describe.each(DLQ_FILTERS)('a filter on %s', parameter => {
  it('marks the numbers of a filter as proven if the service matches its parameter exactly', async () => {
    const { agent, all, matching } = await read(parameter, 'exact');
    expect(agent.shown()).toEqual({ messages: all });
    expect(agent.shown('tried')).toEqual({ messages: matching, proven: 1, entered: 0 });
    expect(agent.rounds().full).toEqual([true, true]);
    expect(agent.failures()).toEqual([]);
  });

  const { otherCase, longer } = CASES[parameter];
  const ways = [
    'ignored' as const,
    ...(otherCase ? ['any-case' as const] : []),
    ...(longer ? ['prefix' as const] : []),
  ];
  it.each(ways)('withdraws only the filter if the service does not match its parameter exactly (%s)', async way => {
    const { agent, all } = await read(parameter, way);
    expect(agent.failures()).toEqual([expect.stringContaining(`tried: ${PROBLEMS[way](parameter)}`)]);
    expect(agent.shown()).toEqual({ messages: all });
    expect(agent.shown('tried')).toEqual({});
    expect(agent.shown('other')).toMatchObject({ proven: 1 });
    expect(agent.rounds().full).toEqual([true, false]);
  });

  // A status cannot match in another case or as a prefix, and an IP address cannot match in another case.
  const same = (['any-case', 'prefix'] as const).filter(way => !ways.includes(way) && !parameter.endsWith('Date'));
  it.each(same)('keeps a filter proven if inexact matching cannot affect its parameter (%s)', async way => {
    const { agent, matching } = await read(parameter, way);
    expect(agent.shown('tried')).toEqual({ messages: matching, proven: 1, entered: 0 });
  });
});

it.each(['fromDate', 'toDate'] as const)(
  'reads a queue of 1,500 entries correctly with fewer than 60 requests per walk if the service ignores %s',
  async parameter => {
    const emulated = await emulateEmpty({ dialect: { filters: { [parameter]: 'ignored' } } });
    for (let number = 0; number < 1500; number += 1) emulated.state.addDlqEntry(at(number / 100));
    const agent = await createFilterAgent({ url: emulated.url, token: emulated.token, filters: [] });
    for (let walk = 1; walk <= 3; walk += 1) {
      await agent.round('full');
      expect(agent.shown()).toEqual({ messages: 1500 });
      expect(agent.requests.dlq).toBeLessThan(60 * walk);
    }
  },
);
