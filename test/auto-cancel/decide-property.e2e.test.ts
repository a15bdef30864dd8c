import fc from 'fast-check';
import { expect, it } from 'vitest';
import { openJournal } from '../../src/auto-cancel/journal.ts';
import { prune } from '../../src/auto-cancel/journal-state.ts';
import { ACCOUNT_STAGES, STAGES } from '../../src/auto-cancel/stages.ts';
import { BREAKERS } from '../../src/model/journal.ts';
import { DAY, HOUR, MINUTE, rule, SECOND } from '../support/auto-cancel-options.ts';
import { createScene } from '../support/auto-cancel-scene.ts';

const REASONS = new Set(STAGES.flatMap(({ reasons }) => Object.keys(reasons)));
const IDS = ['a', 'b', 'c', 'd', 'e'] as const;
const PER_HOUR = 4;
const SECTION = {
  limits: { perRun: 3, perHour: PER_HOUR, perDay: 50, spacing: '1s' },
  breaker: {
    candidates: { max: 4, percent: 100 },
    errors: { max: 3, within: '15m' },
    lostRaces: { percent: 100, ofLast: 5 },
  },
  rules: [rule('jobs', { grace: '2m', limits: { perRun: 3, perHour: 9 } })],
};

const word = fc
  .record({
    id: fc.constantFrom(...IDS),
    says: fc.constantFrom('', '', '', ':idle_for', ':unknown_label', ':no_match'),
    episode: fc.constantFrom('#1', '#1', '#1', '#2'),
  })
  .map(({ id, says, episode }) => `${id}${says}${episode}`);
const walk = fc.uniqueArray(word, { maxLength: 5, selector: text => text[0] }).map(words => words.join(' '));
/**
 * One step of a simulation. Kinds that are listed repeatedly are more likely. `words`: entries of later walks, if they
 * change.
 */
const step = fc.record({
  kind: fc.constantFrom(
    ...([
      'walk',
      'walk',
      'walk',
      'walk',
      'walk',
      'walk',
      'wait',
      'wait',
      'wait',
      'ends',
      'ends',
      'dies',
      'dies',
    ] as const),
    ...(['store fails', 'resets', 'clock steps', 'stopped', 'stale', 'paused'] as const),
  ),
  words: fc.option(walk, { freq: 3, nil: undefined }),
  /** Number of additional walks, or of commits that succeed before the store fails. */
  count: fc.nat(4),
  ms: fc.constantFrom(SECOND, 5 * SECOND, MINUTE, 6 * MINUTE, HOUR, DAY),
  back: fc.boolean(),
  id: fc.constantFrom(...IDS),
  state: fc.constantFrom('success', 'fail', 'gone', 'canceled', undefined, 'in_progress', 'in_progress', 'in_progress'),
});
const answer = fc.constantFrom('302!', '302!', '302', '400', '404', '429', '500', '500', '500!', 'timeout!', 'unsent');

/** Reasons of account stages, which are checked before callback stages. */
const ACCOUNT_REASONS = ACCOUNT_STAGES.flatMap(({ reasons }) => Object.keys(reasons));

type Scene = Awaited<ReturnType<typeof createScene>>;

/**
 * Checks the invariants before a request is sent. `reached`: per action, the number of requests that may have reached the
 * service. `uses`: times of requests, unaffected by clock changes.
 */
function check(scene: Scene, id: string, reached: Map<string, number>, uses: number[]): void {
  const { state } = scene.journal();
  const open = [...state.actions.values()].filter(({ target, isOpen }) => target.id === id && isOpen);
  // The intent is stored and has no response yet.
  expect(open.map(({ attempts }) => attempts.at(-1)?.response)).toEqual([undefined]);
  const action = open[0]?.id ?? '';
  const explained = scene.explain(id);
  expect([explained?.action, explained?.findings[0]?.verdict]).toEqual([action, 'stuck']);
  expect(scene.states.get(id) ?? 'in_progress').toBe('in_progress');
  expect(ACCOUNT_REASONS).not.toContain(explained?.held);
  uses.push(scene.passed());
  expect(uses.filter(at => at > scene.passed() - HOUR).length).toBeLessThanOrEqual(PER_HOUR);
  const isCertain = ['429', 'unsent'].includes(scene.answers[0] ?? '');
  reached.set(action, (reached.get(action) ?? 0) + (isCertain ? 0 : 1));
  expect(reached.get(action)).toBeLessThanOrEqual(2);
}

const REASON = { at: 0, by: 'ann', reason: 'r' } as const;

async function happen(
  scene: Scene,
  { kind, count, ms, back, id, state }: typeof step extends fc.Arbitrary<infer T> ? T : never,
  words: string,
) {
  // A run rejects if its store fails.
  const walkOn = () => scene.walk(words).catch(() => undefined);
  const journal = scene.journal();
  if (kind === 'walk') for (let walks = 0; walks <= count; walks += 1) await walkOn();
  else if (kind === 'wait') await scene.wait(ms).catch(() => undefined);
  else if (kind === 'ends') scene.states.set(id, state as never);
  else if (kind === 'clock steps') scene.clock.step(back ? -ms : ms);
  else if (kind === 'resets') {
    await journal.append(BREAKERS.map(breaker => ({ ...REASON, step: 'breaker_reset', breaker })));
  } else if (kind === 'stopped' || kind === 'stale') {
    Object.assign(scene, { isStopped: kind === 'stopped', isFresh: kind !== 'stale' });
    await walkOn();
    Object.assign(scene, { isStopped: false, isFresh: true });
  } else if (kind === 'paused') {
    await scene.pause();
    await walkOn();
    await scene.resume();
  } else {
    scene.failCommitsAfter(count);
    await walkOn();
    scene.failCommitsAfter(undefined);
    if (kind === 'dies') await scene.restart();
  }
}

it('cancels are sent only for stuck callbacks, after an intent and within limits, despite failures and restarts', {
  timeout: 60_000,
}, async () => {
  let [sent, second, recovered] = [0, 0, 0];
  const life = fc.array(step, { minLength: 30, maxLength: 60, size: 'max' });
  await fc.assert(
    fc.asyncProperty(life, fc.infiniteStream(answer), async (steps, answers) => {
      const scene = await createScene(SECTION);
      const reached = new Map<string, number>();
      const uses: number[] = [];
      let isAhead = false;
      /** Collects violations instead of throwing them, because the simulation ignores errors of runs. */
      const wrong: unknown[] = [];
      scene.onSend = id => {
        sent += 1;
        try {
          check(scene, id, reached, uses);
        } catch (error) {
          wrong.push(error);
        }
      };
      await scene.warm();
      let words = 'a b c';
      for (const each of steps) {
        words = each.words ?? words;
        isAhead ||= each.kind === 'clock steps' && !each.back;
        // The next process cannot distinguish a clock that was set forward from elapsed time.
        if (each.kind === 'dies' && isAhead) [uses.length, isAhead] = [0, false];
        scene.answers = [...answers.take(20)];
        await happen(scene, each, words);
        expect(wrong).toEqual([]);
        if (each.kind === 'dies') recovered += [...scene.journal().state.actions.values()].filter(a => a.isOpen).length;
      }
      for (const { reason } of scene.autoCancel().numbers().skips) expect(REASONS).toContain(reason);
      second += [...reached.values()].filter(count => count === 2).length;
      // The states were pruned at different times, so prune both before comparing them.
      const states = [scene.journal().state, (await openJournal(scene.store, 'production')).state] as const;
      for (const state of states) prune(state, Math.max(state.lastAt, scene.clock.now()) + 400 * DAY);
      expect(states[1]).toEqual(states[0]);
    }),
    { numRuns: 80 },
  );
  // Check that all cases occurred. The counts vary with the seed: usually about 320, 10 and 50.
  expect(sent).toBeGreaterThan(200);
  expect(second).toBeGreaterThan(2);
  expect(recovered).toBeGreaterThan(5);
});
