import { describe, expect, it } from 'vitest';
import type { Dialect } from '../../src/emulator/dialect.ts';
import { dlqList, eventList, KEY_LIST } from '../../src/lookup/lists.ts';
import { messageJson, readMessage } from '../../src/lookup/message.ts';
import { readNewest } from '../../src/lookup/read.ts';
import { createTestClient, TOKEN } from '../support/client.ts';
import { emulateEmpty } from '../support/emulate.ts';

const { signal } = new AbortController();

/** Dialects that each differ from the default in one option. Inexact filters are tested separately. */
const DIALECTS: readonly Partial<Dialect>[] = [
  {},
  { flowControlFields: 'all' },
  { flowControlZeros: 'omitted' },
  { eventPaths: 'events' },
  { eventPaths: 'logs' },
  { eventState: 'upper' },
  { lastCursor: 'empty' },
  { highCount: 'refused' },
  { order: 'ignored' },
  { dlqWorkflows: 'separate' },
  { callbackState: 'failureFunctionState' },
  { callbackState: 'both' },
  { callbackState: 'absent' },
  { burstReset: 'milliseconds' },
  { cursorSeam: 'repeats' },
  { eventsMost: 100 },
  { logDuplicates: 1 },
];

/** Starts a service with 250 dead letters, one failed run, 300 other events and two keys. */
async function start(dialect: Partial<Dialect>) {
  const { url, state } = await emulateEmpty({ token: TOKEN, dialect });
  const now = Date.now();
  for (let age = 1; age <= 250; age += 1) {
    state.addDlqEntry({ messageId: `dead${age}`, enteredAt: now - age * 1000, queueName: age % 2 ? 'odd' : 'even' });
  }
  for (let age = 1; age <= 300; age += 1) state.addEvent({ messageId: `m${age}`, time: now - age * 1000 });
  const life = { messageId: 'run', flowControlKey: 'k' };
  const at = (seconds: number) => now - 20_000 + seconds * 1000;
  state.addEvents([
    { ...life, state: 'created', time: at(0) },
    { ...life, state: 'active', time: at(1) },
    { ...life, state: 'error', time: at(3), responseStatus: 500 },
    { ...life, state: 'failed', time: at(3) },
  ]);
  state.addFailedRun({ messageId: 'run', enteredAt: at(3) });
  return { reader: createTestClient(url).reader };
}

describe.each(DIALECTS)('with the dialect %j', dialect => {
  it('look-ups find the newest rows and the timeline of a message', async () => {
    const { reader } = await start(dialect);
    const dead = await readNewest(dlqList({ queueName: 'even' }), reader, { limit: 3, signal });
    expect(dead.rows.map(({ messageId }) => messageId)).toEqual(['dead2', 'dead4', 'dead6']);
    expect(dead).toMatchObject({ hasMore: true, isProven: true, rejected: 0, mayMissNewer: false });
    const events = await readNewest(eventList({ state: 'CREATED' }), reader, { limit: 3, signal });
    expect(new Set(events.rows.map(({ messageId }) => messageId))).toEqual(
      dialect.logDuplicates ? new Set(['m1', 'm2']) : new Set(['m1', 'm2', 'm3']),
    );
    await readNewest(KEY_LIST, reader, { limit: 3, signal });
    const message = await readMessage({ account: 'a', reader }, 'run', signal);
    expect(message?.entry).toMatchObject({ messageId: 'run' });
    expect(message && messageJson(message)).toMatchObject({
      outcome: 'failed',
      attempts: 1,
      durationSeconds: 3,
      missing: [],
    });
  });
});

describe.each(['ignored', 'prefix'] as const)('if the filter mode of the service is "%s"', way => {
  it.each([
    ['queueName', { queueName: 'od' }],
    ['messageId', { messageId: 'dead' }],
  ] as const)(
    'look-ups reject rows that contradict the filter %s, which the service ignores or matches as a prefix',
    async (parameter, match) => {
      const { reader } = await start({ filters: { [parameter]: way } });
      await expect(readNewest(dlqList(match), reader, { limit: 3, signal })).rejects.toThrow(
        `the service ${way === 'ignored' ? 'ignores the parameter' : 'matches the parameter'} ${parameter}`,
      );
    },
  );
});
