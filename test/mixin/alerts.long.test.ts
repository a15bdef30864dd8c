import { describe, expect, it } from 'vitest';
import { requireProgram } from '../support/prometheus.ts';
import { errorsOf } from './alert-case.ts';
import { alertCases } from './cases/index.ts';

const [ofHours = [], ofDays = []] = [false, true].map(isOfDays =>
  alertCases.filter(({ step }) => (step !== undefined) === isOfDays),
);

describe.skipIf(!requireProgram('promtool'))('alerts in rare situations (promtool test rules)', () => {
  it.each(ofDays)('$alert fires and resolves as expected over multi-day windows', each => {
    expect(errorsOf(each, 'usual', 'rare')).toBe('');
  });

  it.each(ofHours)('$alert fires and resolves as expected in rare situations', each => {
    expect(errorsOf(each, 'rare')).toBe('');
  });
});
