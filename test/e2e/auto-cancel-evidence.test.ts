import { rmSync, writeFileSync } from 'node:fs';
import { describe, expect, it, type TestContext } from 'vitest';
import { eventually } from '../support/eventually.ts';
import type { FrontHooks, FrontRequest } from '../support/front.ts';
import { type Scene, type Stage, setStage } from './stuck-callback.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

type Test = Pick<TestContext, 'onTestFinished'>;
const setUp = ({ onTestFinished }: Test, scene: Scene) =>
  setStage(close => void onTestFinished(async () => void (await close())), scene);

/** Waits for `count` more complete walks. */
async function afterWalks({ walks }: Stage, count: number): Promise<void> {
  const from = walks();
  await eventually(() => expect(walks()).toBeGreaterThanOrEqual(from + count));
}

/** Time of the last event of hanging messages. */
const LONG_AGO = Date.now() - 3 * HOUR;

const SILENT = { stuckWhen: { idleFor: '5m', maxGap: '20h' } };

/** Returns the message id in the query of an event log request, or null without an id. */
const messageIdOf = ({ path }: FrontRequest) =>
  path.startsWith('/v2/events') ? new URLSearchParams(path.split('?')[1]).get('messageId') : null;

/** Sets up two callbacks. One hangs, and its events are hours old. `answer` returns the events of the other one. */
async function setLog(
  test: Test,
  answer: (stage: Stage, messageId: string, requests: number) => Promise<object[]> | object[],
) {
  let requests = 0;
  const hooks: FrontHooks = {
    async after(request, passed) {
      const messageId = messageIdOf(request);
      if (messageId === null) return;
      if (messageId === live) requests += 1;
      const old = [{ messageId, state: 'ACTIVE', time: LONG_AGO }];
      const events = messageId === live ? await answer(stage, messageId, requests) : old;
      passed.body = Buffer.from(JSON.stringify({ events }));
    },
  };
  const stage = await setUp(test, {
    stuck: 2,
    speed: 100,
    events: true,
    upstream: { timeout: '2h' },
    rule: SILENT,
    hooks,
  });
  const [hanging = '', other = ''] = stage.stuck;
  const live = stage.emulator.state.dlqRows().find(({ dlqId }) => dlqId === other)?.messageId;
  return { stage, hanging, requests: () => requests };
}

describe.concurrent('the event log as evidence', () => {
  it.concurrent('the time since the newest event is measured up to when the request is sent, even if the response is slow', async test => {
    const { stage, hanging, requests } = await setLog(test, async ({ now }, messageId) => {
      const time = now() - MINUTE;
      await eventually(() => expect(now()).toBeGreaterThan(time + 6 * MINUTE));
      return [{ messageId, state: 'ACTIVE', time }];
    });
    stage.startAgent();
    await eventually(() => expect(stage.deletes).toContain(hanging));
    const before = requests();
    await eventually(() => expect(requests()).toBeGreaterThan(before + 1));
    expect(stage.deletes).toEqual([hanging]);
    expect(stage.violations).toEqual([]);
  });

  it.concurrent('the event log is inconclusive if the newest row is unreadable', async test => {
    const { stage, hanging, requests } = await setLog(test, (_, messageId) => [
      { messageId, state: 'ACTIVE', time: 'a minute ago' },
      { messageId, state: 'ACTIVE', time: LONG_AGO },
    ]);
    stage.startAgent();
    await eventually(() => expect(stage.deletes).toContain(hanging));
    const before = requests();
    await eventually(() => expect(requests()).toBeGreaterThan(before + 2));
    expect(stage.deletes).toEqual([hanging]);
  });

  it.concurrent('the event log is requested again right before the cancel', async test => {
    const { stage, hanging, requests } = await setLog(test, ({ now }, messageId, requests) => [
      // The message is silent whenever a walk requests its events, and active right after that.
      { messageId, state: 'ACTIVE', time: requests % 2 === 1 ? LONG_AGO : now() - 1000 },
    ]);
    stage.startAgent();
    await eventually(() => expect(stage.deletes).toContain(hanging));
    await eventually(() => expect(requests()).toBeGreaterThan(3));
    expect(stage.deletes).toEqual([hanging]);
  });
});

describe.concurrent('final check', () => {
  it.concurrent('the final check is inconclusive if its list contains an unreadable row', async test => {
    let [isBroken, looks] = [true, 0];
    const hooks: FrontHooks = {
      after({ path }, answer) {
        if (!path.startsWith('/v2/dlq?') || !path.includes('messageId=') || !isBroken) return;
        looks += 1;
        const page = JSON.parse(answer.body.toString()) as { messages: object[] };
        answer.body = Buffer.from(JSON.stringify({ ...page, messages: [...page.messages, { odd: true }] }));
      },
    };
    const stage = await setUp(test, { hooks });
    stage.startAgent();
    await eventually(() => expect(looks).toBeGreaterThan(2));
    expect([stage.deletes, (await stage.journal()).lines]).toEqual([[], []]);
    isBroken = false;
    await eventually(() => expect(stage.deletes).toEqual(stage.stuck));
  });
});

describe.concurrent('approvals', () => {
  it.concurrent('an approval for one rule neither applies to another rule nor ends the other rule’s grace period', async test => {
    const stage = await setUp(test, { rule: { name: 'ask', mode: 'approve' } });
    const [id = ''] = stage.stuck;
    const first = stage.startAgent();
    const steps = async () => (await stage.journal()).lines.map(({ step }) => step);
    await eventually(async () => expect(await steps()).toEqual(['awaiting_approval']));
    writeFileSync(stage.stopFile, '');
    expect(await stage.cli('approve', id, '--by', 'ann')).toMatchObject({ code: 0 });
    first.kill('SIGKILL');
    await first.ended;
    stage.configure({ rule: { name: 'other', grace: '30m' } });
    rmSync(stage.stopFile);
    stage.startAgent();
    await eventually(async () => expect(await steps()).toEqual(['awaiting_approval', 'approved', 'cleared', 'marked']));
    await afterWalks(stage, 4);
    expect(stage.deletes).toEqual([]);
    expect((await stage.journal()).actions).toMatchObject([{ rule: 'other', approvedBy: undefined }]);
  });
});

describe.concurrent('assumed retries', () => {
  it.concurrent('a low retry limit of the failed message does not reduce the number of retries assumed for its callback', async test => {
    const hooks: FrontHooks = {
      after({ path }, answer) {
        if (!path.startsWith('/v2/dlq')) return;
        const page = JSON.parse(answer.body.toString()) as { messages: object[] };
        const messages = page.messages.map(row => ({ ...row, maxRetries: 0 }));
        answer.body = Buffer.from(JSON.stringify({ ...page, messages }));
      },
    };
    // The healthy callback has run for longer than all retries and attempts together (32.2 h), but less than 1.5 times that.
    const stage = await setUp(test, {
      stuck: 1,
      healthyFor: 40 * HOUR,
      rule: { stuckWhen: { inProgressFor: '33h' } },
      hooks,
    });
    stage.startAgent();
    await eventually(() => expect(stage.deletes).toEqual(stage.stuck));
    await afterWalks(stage, 4);
    expect(stage.deletes).toEqual(stage.stuck);
    expect(stage.callbackOf(stage.healthy)).toBe('CALLBACK_INPROGRESS');
  });
});
