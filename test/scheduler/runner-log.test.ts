import { expect, it } from 'vitest';
import { createMemoryStore } from '../../src/store/memory.ts';
import { done, type Folded, type Step, setUp } from './runner-scene.ts';

const warning = (id: string): Partial<Folded> => ({
  changes: [{ key: 'n', value: id }],
  log: { lines: [{ fields: { id }, message: 'found' }], omitted: 0 },
});

async function createScene(steps: (string | Step)[]) {
  const inner = createMemoryStore();
  let refuses = true;
  const commit: typeof inner.commit = (...all) => (refuses ? Promise.reject(new Error('full')) : inner.commit(...all));
  const scene = await setUp(
    async () => {
      const next = steps.shift() ?? 'none';
      return typeof next === 'string' ? done(next, warning(next)) : next;
    },
    { ...inner, commit },
  );
  const found = () => scene.log.lines.filter(({ message }) => message === 'found').map(({ fields }) => fields);
  return {
    ...scene,
    found,
    accept() {
      refuses = false;
    },
  };
}

const broken: Step = {
  more: undefined,
  fold() {
    throw new Error('half-way');
  },
};

it('a runner logs warnings of a step after its commit and discards warnings of steps that a failed fold rolls back', async () => {
  const { run, found, accept } = await createScene(['lost', broken, 'waits', 'kept']);
  await run();
  await run();
  await run();
  expect(found()).toEqual([]);
  accept();
  await run();
  expect(found()).toEqual([
    { account: 'a', id: 'waits' },
    { account: 'a', id: 'kept' },
  ]);
});

it('a runner keeps 10,000 warnings while the store rejects commits and reports how many it dropped', async () => {
  const lines = Array.from({ length: 6000 }, (_, id) => ({ fields: { id }, message: 'found' }));
  const many = done('many', { changes: [{ key: 'n', value: '1' }], log: { lines, omitted: 5 } });
  const { run, found, accept, log } = await createScene([many, many]);
  await run();
  accept();
  await run();
  expect(found()).toHaveLength(10_000);
  expect(log.lines).toContainEqual({
    level: 'warn',
    fields: { account: 'a', collector: 'x', lines: 2010 },
    message: 'log lines omitted: too many at once',
  });
});

it('a runner calls onCommitted only after a commit that includes the step', async () => {
  const called: string[] = [];
  const named = (name: string) =>
    done(name, { changes: [{ key: 'n', value: name }], onCommitted: () => void called.push(name) });
  const { run, accept } = await createScene([named('refused'), named('committed')]);
  await run();
  expect(called).toEqual([]);
  accept();
  await run();
  expect(called).toEqual(['committed']);
});
