import { describe, it } from 'vitest';
import { expectProblems } from './expected.ts';
import { messages } from './messages.ts';
import { queues } from './queues.ts';
import { reading } from './reading.ts';
import { LONGEST } from './situation.ts';

const long = [...messages, ...queues, ...reading].filter(({ minutes }) => minutes > LONGEST);

describe('long situations', () => {
  for (const { name, reports, only, ...situation } of long) {
    it(name, () => expectProblems(situation, reports, only));
  }
});
