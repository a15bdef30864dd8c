import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Agenda } from '../../src/emulator/agenda.ts';
import { runs } from '../support/runs.ts';

test('the agenda runs actions in time order, and actions with the same time in the order in which they were added', () => {
  const due = fc.array(fc.integer({ min: 90, max: 120 }), { maxLength: 60 });
  const property = fc.property(due, fc.integer({ min: 95, max: 125 }), (times, until) => {
    const agenda = new Agenda(100);
    const happened: string[] = [];
    for (const [index, time] of times.entries()) agenda.at(time, () => happened.push(`${index} at ${agenda.now}`));
    agenda.runUntil(until);
    const expected = times
      .map((time, index) => ({ time: Math.max(100, time), index }))
      .filter(({ time }) => time <= until)
      .sort((a, b) => a.time - b.time || a.index - b.index);
    expect(happened).toEqual(expected.map(({ time, index }) => `${index} at ${time}`));
    expect(agenda.now).toBe(Math.max(100, until));
  });
  fc.assert(property, { numRuns: runs(300) });
});

test('an action can add further actions to the agenda, which run in the same pass if they are due', () => {
  const agenda = new Agenda(0);
  const happened: number[] = [];
  const again = () => {
    happened.push(agenda.now);
    agenda.at(agenda.now + 10, again);
  };
  agenda.at(5, again);
  agenda.runUntil(30);
  expect(happened).toEqual([5, 15, 25]);
  agenda.restart(1000);
  agenda.runUntil(2000);
  expect(happened.length).toBe(3);
});
