import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { describe, expect, it, type TestContext } from 'vitest';
import type { JournalEntry } from '../../src/model/journal.ts';
import { scrape } from '../support/agent.ts';
import { eventually } from '../support/eventually.ts';
import { isLook, type Scene, type Stage, setStage } from './stuck-callback.ts';

const CANCEL = 'DELETE /v2/workflows/dlq/callback/{dlqId}';

type Test = Pick<TestContext, 'onTestFinished'>;
const setUp = ({ onTestFinished }: Test, scene?: Scene) =>
  setStage(close => void onTestFinished(async () => void (await close())), scene);

/** Waits for `count` more complete walks. */
async function afterWalks({ walks }: Stage, count: number): Promise<void> {
  const from = walks();
  await eventually(() => expect(walks()).toBeGreaterThanOrEqual(from + count));
}

const steps = (lines: readonly JournalEntry[]) => lines.map(({ step }) => step);
const count = (lines: readonly JournalEntry[], step: JournalEntry['step']) =>
  steps(lines).filter(each => each === step).length;

/** Waits until the journal passes `check`, and returns it. */
const journalWhen = (stage: Stage, check: (journal: Awaited<ReturnType<Stage['journal']>>) => void) =>
  eventually(async () => {
    const journal = await stage.journal();
    check(journal);
    return journal;
  });

async function killedBy(stage: Stage, crash: string): Promise<void> {
  expect(await stage.startAgent(crash).ended).toBe('SIGKILL');
}

/** Returns a function that returns the agent's reasons for skipping callbacks. */
async function skipsOf(agent: ReturnType<Stage['startAgent']>): Promise<() => Promise<string[]>> {
  const url = await agent.listensAt();
  return async () => {
    const skipped = (await scrape(url)).samples('delivery_auto_cancel_skipped_total');
    return skipped.flatMap(({ labels, value }) => (value > 0 ? [labels.reason ?? ''] : []));
  };
}

describe.concurrent('intents after an agent is killed', () => {
  it.concurrent.for([
    ['detected by an hour without walks', false],
    ['detected by callback message ids', true],
  ] as const)(
    'an intent left by a killed agent does not affect the next run of the callback: %s',
    async ([, listsCallbackIds], test) => {
      const stage = await setUp(test, { listsCallbackIds });
      const [id = ''] = stage.stuck;
      await killedBy(stage, 'after intent 1');
      stage.emulator.state.setCallback(id, 'CALLBACK_FAIL');
      expect(stage.emulator.state.retryCallback(id)).toBe('done');
      if (!listsCallbackIds) await stage.passTime(3_600_000);
      stage.startAgent();
      const { actions } = await journalWhen(stage, ({ actions }) => expect(actions[0]?.isOpen).toBe(false));
      await afterWalks(stage, 5);
      expect(actions.map(({ ended }) => ended)).toEqual(['gave_up']);
      expect((await stage.journal()).lines.at(-1)).toMatchObject({ step: 'ended', reason: 'not_tracked' });
      expect(stage.deletes).toEqual([]);
      expect(stage.callbackOf(id)).toBe('CALLBACK_INPROGRESS');
    },
  );

  it.concurrent.for<readonly [string, Scene, string]>([
    ['the hourly limit', { autoCancel: { limits: { perHour: 1 } } }, 'limit_hour'],
    ['the daily limit', { autoCancel: { limits: { perDay: 1 } } }, 'limit_day'],
    ['the limit of its rule', { rule: { limits: { perRun: 9, perHour: 1 } } }, 'limit_hour'],
    ['the cooldown of its URL', { stuck: 1, rule: { cooldown: { perUrl: '10h' } } }, 'cooldown'],
  ])('an intent left by a killed agent counts against %s after a restart', async ([, scene, reason], test) => {
    const stage = await setUp(test, { stuck: 2, ...scene });
    await killedBy(stage, 'after intent 1');
    const agent = stage.startAgent();
    const skips = await skipsOf(agent);
    await eventually(async () => expect(await skips()).toContain(reason));
    // After four read-backs the first action could be retried if the limits allowed it.
    await afterWalks(stage, 9);
    const { lines } = await stage.journal();
    expect(steps(lines)).toEqual(['intent']);
    expect(stage.deletes).toEqual([]);
  });
});

describe.concurrent('breakers', () => {
  it.concurrent('after a restart, the error breaker opens because of journaled errors and stays open until it is reset', async test => {
    const stage = await setUp(test, {
      stuck: 5,
      speed: 1,
      emulator: { faults: [{ endpoint: CANCEL, kind: 'status', status: 500 }] },
      autoCancel: { breaker: { errors: { max: 2 } } },
    });
    await killedBy(stage, 'after answered 2');
    expect(count(await stage.traced(), 'breaker_opened')).toBe(0);
    await killedBy(stage, 'after breaker_opened 1');
    const agent = stage.startAgent();
    const skips = await skipsOf(agent);
    await eventually(async () => expect(await skips()).toContain('breaker_errors'));
    await afterWalks(stage, 3);
    expect(stage.deletes.length).toBe(2);
    expect(count(stage.traced(), 'breaker_opened')).toBe(1);
    stage.emulator.faults.clear();
    expect(await stage.cli('reset-breaker', 'errors', '--reason', 'it works again', '--by', 'ann')).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^a: breaker errors reset; it was open since \S+: \d+ cancels failed/),
      stderr: '',
    });
    // The actions of the two failed requests may still be open; the other three are cancelled.
    const { state } = await journalWhen(stage, ({ lines }) => expect(count(lines, 'ended')).toBeGreaterThanOrEqual(3));
    expect(state.breakers.size).toBe(0);
    expect((await stage.cli('journal')).stdout).toMatch(/breaker_reset +errors by ann: it works again/);
    expect(stage.violations).toEqual([]);
  });

  it.concurrent('the candidate breaker opens once and stays open after a restart', async test => {
    const stage = await setUp(test, { stuck: 4, autoCancel: { breaker: { candidates: { max: 3, percent: 100 } } } });
    await killedBy(stage, 'after breaker_opened 1');
    const agent = stage.startAgent();
    const skips = await skipsOf(agent);
    await eventually(async () => expect(await skips()).toContain('breaker_candidates'));
    await afterWalks(stage, 4);
    expect(steps((await stage.journal()).lines)).toEqual(['breaker_opened']);
    expect(stage.deletes).toEqual([]);
  });

  it.concurrent.for(['read-only', 'void'] as const)(
    'the error breaker opens at the first rejection of a %s token',
    async (actionToken, test) => {
      const stage = await setUp(test, { stuck: 3, speed: 1, actionToken });
      const first = stage.startAgent();
      await journalWhen(stage, ({ state }) => expect(state.breakers.has('errors')).toBe(true));
      await afterWalks(stage, 3);
      first.kill('SIGKILL');
      await first.ended;
      const second = stage.startAgent();
      await afterWalks(stage, 5);
      expect(stage.deletes.length).toBe(1);
      const skips = await skipsOf(second);
      await eventually(async () => expect(await skips()).toContain('breaker_errors'));
      const reset = await stage.cli('reset-breaker', 'errors', '--reason', 'another token', '--by', 'ann');
      expect(reset).toMatchObject({ code: 0 });
      const { lines } = await journalWhen(stage, ({ lines }) => expect(count(lines, 'breaker_opened')).toBe(2));
      expect(count(lines, 'breaker_reset')).toBe(1);
      await afterWalks(stage, 3);
      expect(stage.deletes.length).toBe(2);
      // The second DELETE may be for the same callback, after a new evaluation. An intent may be answered with `not_sent`.
      const answers = lines.flatMap(line => (line.step === 'answered' ? [line.answer] : []));
      expect(count(lines, 'intent')).toBe(answers.length);
      expect(
        answers.filter(({ kind }) => kind !== 'not_sent'),
        JSON.stringify(lines),
      ).toHaveLength(2);
      const output = first.stderr() + second.stderr() + JSON.stringify(await stage.journal());
      for (const secret of stage.secrets) expect(output).not.toContain(secret);
    },
  );
});

describe.concurrent('auto-cancel commands', () => {
  it.concurrent('a running agent executes auto-cancel commands', async test => {
    const gate = Promise.withResolvers<void>();
    const stage = await setUp(test, {
      speed: 1,
      rule: { mode: 'approve', expires: null },
      hooks: { before: () => gate.promise },
    });
    const [id = ''] = stage.stuck;
    const agent = stage.startAgent();
    await agent.says(/is listening/);
    const pause = await stage.cli('pause', '--reason', 'we look at it', '--by', 'ann');
    expect(pause).toEqual({ code: 0, stdout: 'paused\n', stderr: '' });
    gate.resolve();
    await afterWalks(stage, 5);
    expect((await stage.cli('explain', id)).stdout).toContain('not cancelled now: paused');
    expect(steps((await stage.journal()).lines)).toEqual(['paused']);
    expect(await stage.cli('resume', '--reason', 'looked', '--by', 'ann')).toMatchObject({ code: 0 });
    await journalWhen(stage, ({ lines }) => expect(steps(lines).at(-1)).toBe('awaiting_approval'));
    const pending = await stage.cli('pending');
    expect(pending).toMatchObject({ code: 0, stderr: '' });
    expect(pending.stdout).toMatch(/^account +action +rule +dlqId +url +requested +expires$/m);
    expect(pending.stdout).toContain(`${id}  https://stuck.example.com/run-0 `);
    const [waiting, ...others] = JSON.parse((await stage.cli('pending', '--json')).stdout);
    expect([waiting.dlqId, waiting.rule, others]).toEqual([id, 'stuck', []]);
    expect(Date.parse(waiting.expiresAt) - Date.parse(waiting.requestedAt)).toBe(24 * 3_600_000);
    const typed = `delivery-watch auto-cancel approve ${waiting.action} --config `;
    expect([waiting.approve, pending.stdout]).toEqual([expect.stringContaining(typed), expect.stringContaining(typed)]);
    expect(await stage.cli('approve', 'none')).toMatchObject({ code: 1, stderr: expect.stringContaining('none') });
    await afterWalks(stage, 2);
    expect(stage.deletes).toEqual([]);
    expect(await stage.cli('approve', waiting.action, '--by', 'bob')).toMatchObject({ code: 0 });
    expect(await stage.cli('pending')).toMatchObject({ code: 0, stdout: 'no action waits for approval\n' });
    const { lines } = await journalWhen(stage, ({ actions }) => expect(actions[0]?.ended).toBe('confirmed'));
    expect(steps(lines)).toEqual(['paused', 'resumed', 'awaiting_approval', 'approved', 'intent', 'answered', 'ended']);
    expect(lines.find(({ step }) => step === 'intent')).toMatchObject({ mode: 'approve', approvedBy: 'bob' });
    expect(stage.deletes).toEqual([id]);
    const table = await stage.cli('journal');
    for (const word of ['by ann: we look at it', 'approved', 'accepted 302', `${id} `, 'confirmed']) {
      expect(table.stdout).toContain(word);
    }
    const json = (await stage.cli('journal', '--json')).stdout.trimEnd().split('\n');
    expect(json.map(line => JSON.parse(line).step)).toEqual(steps(lines));
    await afterWalks(stage, 2);
    expect(await stage.cli('explain', id)).toMatchObject({ code: 1 });
  });

  it.concurrent('auto-cancel pause and auto-cancel journal work without a running agent, and the next agent applies the pause', async test => {
    const stage = await setUp(test, { speed: 3 });
    const [id = ''] = stage.stuck;
    const pause = await stage.cli('pause', '--reason', 'a bad night', '--by', 'ann');
    expect(pause).toMatchObject({ code: 0, stdout: 'paused\n' });
    expect(await stage.cli('explain', id)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('no agent responded'),
    });
    expect(await stage.cli('approve', id)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('waits for approval'),
    });
    expect(await stage.cli('journal')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('by ann: a bad night'),
    });
    expect(await stage.cli('pending')).toMatchObject({ code: 0, stdout: 'no action waits for approval\n' });
    expect(await stage.cli('pending', '--json')).toMatchObject({ code: 0, stdout: '[]\n' });
    const agent = stage.startAgent();
    await afterWalks(stage, 6);
    const skips = await skipsOf(agent);
    expect(await skips()).toContain('paused');
    expect(steps((await stage.journal()).lines)).toEqual(['paused']);
    expect(stage.deletes).toEqual([]);
    expect(await stage.cli('resume', '--reason', 'it is day')).toMatchObject({ code: 0 });
    await journalWhen(stage, ({ actions }) => expect(actions[0]?.ended).toBe('confirmed'));
    expect(stage.deletes).toEqual([id]);
  });
});

describe.concurrent('stop file, shutdown and startup', () => {
  it.concurrent('the agent sends no cancel while the stop file exists, even if the file appears during the final check', async test => {
    let isLast = false;
    const stage: Stage = await setUp(test, {
      hooks: { after: request => void (isLast && isLook(request) && writeFileSync(stage.stopFile, '')) },
    });
    const [id = ''] = stage.stuck;
    writeFileSync(stage.stopFile, '');
    const agent = stage.startAgent();
    const skips = await skipsOf(agent);
    await eventually(async () => expect(await skips()).toContain('stop_file'));
    await afterWalks(stage, 3);
    expect((await stage.journal()).lines).toEqual([]);
    // The stop file reappears during the agent's final check.
    isLast = true;
    rmSync(stage.stopFile);
    await eventually(() => expect(existsSync(stage.stopFile)).toBe(true));
    await afterWalks(stage, 3);
    expect((await stage.journal()).lines).toEqual([]);
    expect(stage.deletes).toEqual([]);
    isLast = false;
    rmSync(stage.stopFile);
    await journalWhen(stage, ({ actions }) => expect(actions[0]?.ended).toBe('confirmed'));
    expect(stage.deletes).toEqual([id]);
  });

  it.concurrent('the agent exits on SIGTERM without waiting for a DELETE that hangs, and reads the outcome back after a restart', async test => {
    const stage = await setUp(test, {
      emulator: { faults: [{ endpoint: CANCEL, kind: 'hang', acts: true, times: 1 }] },
      upstream: { timeout: '2h' },
    });
    const [id = ''] = stage.stuck;
    const agent = stage.startAgent();
    await eventually(() => expect(stage.callbackOf(id)).toBe('CALLBACK_CANCELED'));
    const start = performance.now();
    agent.kill('SIGTERM');
    expect(await agent.ended).toBe(0);
    // The DELETE would time out after 12 minutes (two hours of agent time).
    expect(performance.now() - start).toBeLessThan(300_000);
    expect(steps((await stage.journal()).lines)).toEqual(['intent', 'answered']);
    stage.startAgent();
    const { lines } = await journalWhen(stage, ({ actions }) => expect(actions[0]?.ended).toBe('confirmed'));
    expect(lines.at(-1)).toMatchObject({ unproven: true });
    expect(stage.deletes).toEqual([id]);
  });

  it.concurrent('a second agent on the same store fails to start and reports the reason', async test => {
    const stage = await setUp(test);
    const first = stage.startAgent();
    await first.says(/is listening/);
    const second = stage.startAgent();
    expect(await second.ended).toBe(1);
    expect(second.stderr()).toContain(stage.path);
    expect(second.stderr()).toMatch(/in use|locked|another/);
    await journalWhen(stage, ({ actions }) => expect(actions[0]?.ended).toBe('confirmed'));
    expect(stage.deletes).toEqual(stage.stuck);
  });
});
