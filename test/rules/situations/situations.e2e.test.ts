import { describe, it } from 'vitest';
import { expectProblems } from './expected.ts';
import { messages } from './messages.ts';
import { queues } from './queues.ts';
import { reading } from './reading.ts';
import { LONGEST } from './situation.ts';

describe.each(Object.entries({ messages, queues, reading }))('situations of %s', (_, cases) => {
  for (const { name, reports, only, ...situation } of cases.filter(({ minutes }) => minutes <= LONGEST)) {
    it(name, () => expectProblems(situation, reports, only));
  }
});
