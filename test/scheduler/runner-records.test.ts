import { expect, it } from 'vitest';
import type { LogRecord } from '../../src/model/log-record.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import { done, type Folded, type Step, setUp } from './runner-scene.ts';

const recorded = (id: string): Partial<Folded> => {
  const record: LogRecord = { kind: 'gap', id, at: undefined, from: 1, to: 2 };
  return { changes: [{ key: 'n', value: id }], records: { records: [record], dropped: 0 } };
};

it('lets log records be sent when they are committed, and never those that are forgotten with what they tell', async () => {
  const inner = createMemoryStore();
  let refuses = true;
  const commit: typeof inner.commit = (...all) => (refuses ? Promise.reject(new Error('full')) : inner.commit(...all));
  const broken: Step = {
    more: undefined,
    fold() {
      throw new Error('half-way');
    },
  };
  const steps: (string | Step)[] = ['lost', broken, 'waits', 'kept'];
  const sent: string[] = [];
  const { run } = await setUp(
    async () => {
      const next = steps.shift();
      return typeof next === 'string' ? done(next, recorded(next)) : (next ?? broken);
    },
    { ...inner, commit },
    ['list'],
    {
      post: (_account, { records }) => ({
        changes: () => records.map(({ id }) => ({ key: `record/${id}`, value: '' })),
        send: () => sent.push(...records.map(({ id }) => id)),
      }),
    },
  );
  await run();
  await run();
  await run();
  expect(sent).toEqual([]);
  refuses = false;
  await run();
  expect(sent).toEqual(['waits', 'kept']);
  expect([...(await inner.scan('a', 'record/')).keys()]).toEqual(['record/waits', 'record/kept']);
});
