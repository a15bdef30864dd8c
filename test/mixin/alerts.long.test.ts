import { describe, expect, it } from 'vitest';
import { requireProgram } from '../support/prometheus.ts';
import { wrongIn } from './alert-case.ts';
import { alertCases } from './cases/index.ts';

const [ofHours = [], ofDays = []] = [false, true].map(isOfDays =>
  alertCases.filter(({ step }) => (step !== undefined) === isOfDays),
);

describe.skipIf(!requireProgram('promtool'))('alerts, by promtool test rules', () => {
  it.each(ofDays)('$alert, whose windows are days', each => {
    expect(wrongIn(each, 'usual', 'rare')).toBe('');
  });

  it.each(ofHours)('$alert, in situations that are rare', each => {
    expect(wrongIn(each, 'rare')).toBe('');
  });
});
