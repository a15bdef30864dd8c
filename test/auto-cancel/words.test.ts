import { expect, it } from 'vitest';
import { STAGES } from '../../src/auto-cancel/stages.ts';
import { sentenceOf, skipText } from '../../src/auto-cancel/words.ts';
import { FINAL_OUTCOMES } from '../../src/model/journal.ts';

it('each reason for skipping a stuck callback is described by a sentence', () => {
  const reasons = STAGES.filter(({ name }) => name !== 'verdict').flatMap(({ reasons }) => Object.keys(reasons));
  for (const held of [...reasons, ...FINAL_OUTCOMES]) {
    expect(skipText(held)).toMatch(/^Nothing is cancelled because .{10,}[^.]\.$/);
    expect(skipText(held)).not.toMatch(/[`[\]]/);
  }
  expect(skipText('unknown_idle_for')).toBe(
    'Nothing is cancelled because the rule has idleFor, and the event log data is not fresh.',
  );
});

const target = {
  account: 'a',
  id: '1-0',
  dlqId: '1-0',
  messageId: 'm',
  workflowRunId: undefined,
  url: undefined,
  workflowUrl: undefined,
  responseStatus: 500,
  episode: 'e',
};
const of = { at: 0, action: 'ab' };
const rule = { rule: 'r', target, evidence: [] };

it.each([
  [
    { ...of, ...rule, step: 'marked', mode: 'enforce', policy: 'p', until: 0 },
    'marked: until 1970-01-01T00:00:00.000Z',
  ],
  [{ ...of, step: 'cleared', reason: 'not_tracked' }, 'cleared: not_tracked'],
  [{ ...of, step: 'approved', by: 'ann' }, 'approved: by ann'],
  [{ ...of, step: 'answered', attempt: 1, answer: { kind: 'accepted', status: 202 } }, 'answered: accepted 202'],
  [
    { ...of, ...rule, step: 'ended', outcome: 'confirmed', mode: 'enforce', reason: 'read_canceled' },
    'ended: the service reports the callback as cancelled (read_canceled)',
  ],
  [{ at: 0, step: 'paused', by: 'ann', reason: 'line\nbreak.' }, 'paused: by ann: line\u{fffd}break.'],
  [{ at: 0, step: 'breaker_opened', breaker: 'errors', reason: 'x' }, 'breaker opened: errors: x'],
] as const)('a journal line is described by its step and details: %j', (line, sentence) => {
  expect(sentenceOf(line)).toBe(sentence);
});
