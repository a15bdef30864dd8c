import { describe, expect, it } from 'vitest';
import { requireProgram } from '../support/prometheus.ts';
import { wrongIn } from './alert-case.ts';
import { alertCases } from './cases/index.ts';

const ofDays = alertCases.filter(({ step }) => step !== undefined);

describe.skipIf(!requireProgram('promtool'))('alerts on windows of days, by promtool test rules', () => {
  it.each(ofDays)('$alert', each => {
    expect(wrongIn(each)).toBe('');
  });
});
