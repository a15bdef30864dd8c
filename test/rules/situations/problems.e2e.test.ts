import { describe, it } from 'vitest';
import { expectProblems } from './expected.ts';
import { problemCases } from './problems.ts';
import { usualOf } from './variants.ts';

describe.each(problemCases)('$kind', each => {
  for (const { name, situation, lines } of usualOf(each)) {
    it(name, () => expectProblems(situation, lines, each.kind));
  }
});
