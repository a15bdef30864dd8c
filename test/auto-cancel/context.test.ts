import { describe, expect, it } from 'vitest';
import { DAY, HOUR, MINUTE, rule, SECOND } from '../support/auto-cancel-options.ts';
import { warmScene } from './warm-scene.ts';

type Scene = Awaited<ReturnType<typeof warmScene>>;

/** Advances time without an auto-cancel run. */
const pass = (scene: Scene, ms: number) => scene.clock.sleep(ms);

describe('time since the last event', () => {
  it('the time since the last event is measured up to the start of the event look-up', async () => {
    const scene = await warmScene();
    scene.events.set('m-a', scene.clock.now() - 30 * MINUTE);
    scene.onEvents = () => pass(scene, 40 * MINUTE);
    expect(await scene.walk('a:asks_events')).toBe('left a idle_for');
    expect(scene.sent).toEqual([]);
  });

  it.each([
    ['an event was added', (scene: Scene) => scene.events.set('m-a', scene.clock.now()), 'idle_for'],
    [
      'an old event was added late',
      (scene: Scene) => scene.events.set('m-a', scene.clock.now() - 2 * HOUR),
      'another_event',
    ],
    ['the log no longer lists the event', (scene: Scene) => scene.events.delete('m-a'), 'unknown_idle_for'],
    ['the log became unreadable', (scene: Scene) => scene.events.set('m-a', undefined), 'unknown_idle_for'],
    ['a row became unreadable', (scene: Scene) => Object.assign(scene.rejected, { events: 1 }), 'unknown_idle_for'],
    ['the log became stale', (scene: Scene) => Object.assign(scene, { eventsAreFresh: false }), 'unknown_idle_for'],
  ])('the last event is looked up again right before the cancel: %s', async (_, happens, reason) => {
    const scene = await warmScene();
    scene.events.set('m-a', scene.clock.now() - 3 * HOUR);
    let looks = 0;
    scene.onEvents = () => {
      looks += 1;
      // Change the state during the first look-up.
      if (looks === 1) happens(scene);
    };
    expect(await scene.walk('a:asks_events')).toBe(`left a ${reason}`);
    expect(scene.sent).toEqual([]);
  });

  it('if the next walk completes during event look-ups, their results are reused for that walk', async () => {
    const scene = await warmScene();
    for (const id of ['a', 'b']) scene.events.set(`m-${id}`, scene.clock.now() - 3 * HOUR);
    let looks = 0;
    scene.onEvents = async () => {
      looks += 1;
      if (looks !== 2) return;
      await pass(scene, MINUTE);
      scene.list('a:asks_events b:asks_events');
    };
    expect(await scene.walk('a:asks_events b:asks_events')).toBe('');
    expect(await scene.wait(0)).toContain('intent a jobs 1\nanswered a 1 accepted\nintent b jobs 1');
    // Two look-ups during the first walk, and one right before each cancel.
    expect(looks).toBe(4);
  });
});

describe('event look-ups that take long', () => {
  it('a slow event log neither delays callbacks that need no event look-up nor starves the others', async () => {
    const scene = await warmScene();
    const slow = Array.from({ length: 30 }, (_, index) => `s${index}:asks_events`).join(' ');
    const words = `quick ${slow}`;
    for (let index = 0; index < 30; index += 1) scene.events.set(`m-s${index}`, undefined);
    scene.events.set('m-s29', scene.clock.now() - 3 * HOUR);
    let looks = 0;
    scene.onAsked = async what => {
      // A walk completes during every third look-up. The final check finishes before the next walk.
      if (what !== 'look events') return;
      looks += 1;
      await pass(scene, 2 * MINUTE);
      if (looks % 3 === 0) scene.list(words);
    };
    await scene.walk(words);
    await scene.wait(0);
    expect(scene.sent).toEqual(['quick']);
    for (let walk = 0; walk < 60 && scene.sent.length < 2; walk += 1) await scene.again();
    expect(scene.sent).toEqual(['quick', 's29']);
  });
});

it('a final check that takes longer than a walk and fails does not starve other callbacks', async () => {
  const scene = await warmScene();
  scene.onAsked = async (what, messageId) => {
    if (what !== 'action dlq' || messageId !== 'm-a') return;
    await pass(scene, 10 * MINUTE);
    scene.list('a b');
    throw new Error('no response in time');
  };
  await scene.walk('a b');
  for (let walk = 0; walk < 3; walk += 1) await scene.again();
  expect(scene.sent).toEqual(['b']);
});

it('only the final check and the look-up of the next delivery use the highest priority', async () => {
  const scene = await warmScene();
  scene.events.set('m-a', scene.clock.now() - 3 * HOUR);
  await scene.walk('a:asks_events');
  expect(scene.asked).toEqual(['look events', 'action dlq', 'action events', 'action runs']);
  await scene.wait(0);
  expect(scene.asked.slice(4)).toEqual(['look dlq']);
});

describe('unreadable rows', () => {
  it('an unreadable row makes the newest event unknown', async () => {
    const scene = await warmScene();
    scene.events.set('m-a', scene.clock.now() - 3 * HOUR);
    scene.rejected.events = 1;
    expect(await scene.walk('a:asks_events')).toBe('left a unknown_idle_for');
    scene.rejected.events = 0;
    expect(await scene.again()).toMatch(/^intent a/);
  });

  it('an unreadable row makes the final check fail', async () => {
    const scene = await warmScene();
    scene.rejected.dlq = 1;
    expect(await scene.walk('a')).toBe('left a look_failed');
    expect(scene.sent).toEqual([]);
  });

  it('an unreadable row postpones the read-back', async () => {
    const scene = await warmScene();
    await scene.walk('a');
    scene.states.set('a', 'gone');
    scene.rejected.dlq = 1;
    for (const ms of [0, MINUTE, HOUR]) expect(await scene.wait(ms)).toBe('');
    scene.rejected.dlq = 0;
    expect(await scene.wait(MINUTE)).toBe('ended a gone not_listed');
  });
});

const EXPIRES = '2026-06-01T01:00:00Z';
/** Changes that prevent a cancel at any time before its request is sent: reason, settings, change. */
const STOPS: [string, object, (scene: Scene) => unknown][] = [
  ['newer_walk', {}, scene => pass(scene, SECOND).then(() => scene.list('a'))],
  ['stale', {}, scene => Object.assign(scene, { isFresh: false })],
  ['partial', {}, scene => Object.assign(scene, { isPartial: true })],
  ['no_data', {}, scene => Object.assign(scene, { hasFacts: false })],
  ['too_early', {}, scene => scene.clock.step(HOUR)],
  ['too_early', {}, scene => scene.clock.step(-HOUR)],
  ['clock_skew', {}, scene => Object.assign(scene, { clockSkew: 5001 })],
  ['clock_unknown', {}, scene => Object.assign(scene, { clockSkew: undefined })],
  ['stop_file', {}, scene => Object.assign(scene, { isStopped: true })],
  ['alert_firing', { pauseWhileAlerts: ['Down'] }, scene => scene.firing.add('Down')],
  ['alert_unknown', { pauseWhileAlerts: ['Down'] }, scene => scene.unknownAlerts.add('Down')],
  ['paused', {}, scene => scene.pause()],
  ['too_late', {}, scene => pass(scene, 3 * MINUTE)],
];

it('a clock skew of 5 s does not prevent a cancel', async () => {
  const scene = await warmScene();
  scene.clockSkew = 5000;
  await scene.walk('a');
  expect(scene.sent).toEqual(['a']);
});

describe('conditions that prevent a cancel', () => {
  it.each(STOPS)(
    'a cancel is not sent if this reason arises while its request is waiting for budget: %s',
    async (reason, section, happens) => {
      const scene = await warmScene({ ...section, rules: [rule('jobs')] });
      scene.onTurn = () => happens(scene);
      await scene.walk('a');
      expect(scene.sent).toEqual([]);
      const lines = await scene.lines();
      expect(lines.filter(({ step }) => step === 'answered')).toMatchObject([
        { answer: { kind: 'not_sent', why: reason } },
      ]);
      expect(lines.at(-1)).toMatchObject({ step: 'ended', outcome: 'expired' });
    },
  );

  it.each(STOPS)(
    'no intent is written if this reason arises during the final check: %s',
    async (reason, section, happens) => {
      const scene = await warmScene({ ...section, rules: [rule('jobs')] });
      scene.events.set('m-a', scene.clock.now() - 3 * HOUR);
      let looks = 0;
      scene.onEvents = async () => {
        looks += 1;
        if (looks === 2) await happens(scene);
      };
      const result = await scene.walk('a:asks_events');
      expect(result.split('\n').at(-1)).toBe({ newer_walk: '', paused: 'left a paused' }[reason] ?? `left a ${reason}`);
      expect((await scene.lines()).filter(({ step }) => step === 'intent')).toEqual([]);
      expect(scene.sent).toEqual([]);
    },
  );

  it.each([
    ['rule_expired', { expires: EXPIRES }],
    ['window_closed', { windows: { allow: [{ cron: '0 0 * * *', for: '1h' }] } }],
    ['window_denied', { windows: { deny: [{ from: EXPIRES, to: '2026-06-02T00:00:00Z', reason: 'freeze' }] } }],
  ])(
    'a cancel is not sent if its permitted period ends while the request is waiting for budget: %s',
    async (reason, more) => {
      const scene = await warmScene({ rules: [rule('jobs', more)] });
      await scene.wait(Date.parse(EXPIRES) - scene.clock.now() - MINUTE - SECOND);
      scene.onTurn = () => pass(scene, SECOND);
      await scene.walk('a');
      expect(scene.sent).toEqual([]);
      expect((await scene.lines()).find(({ step }) => step === 'answered')).toMatchObject({ answer: { why: reason } });
    },
  );

  it('a cancel is not sent if its approval expires during the final check', async () => {
    const scene = await warmScene({ rules: [rule('jobs', { mode: 'approve' })] });
    scene.events.set('m-a', scene.clock.now() - 3 * HOUR);
    await scene.walk('a:asks_events');
    const { action = '' } = scene.explain('a') ?? {};
    await scene.journal().append([{ at: scene.clock.now(), action, step: 'approved', by: 'ann' }]);
    await scene.wait(DAY - 2 * MINUTE);
    let looks = 0;
    scene.onEvents = async () => {
      looks += 1;
      if (looks === 2) await pass(scene, MINUTE);
    };
    await scene.again();
    expect([looks, scene.sent]).toEqual([2, []]);
  });

  it('a cancel is not sent if its approval expires while the request is waiting for budget', async () => {
    const scene = await warmScene({ rules: [rule('jobs', { mode: 'approve' })] });
    await scene.walk('a');
    const { action = '' } = scene.explain('a') ?? {};
    await scene.journal().append([{ at: scene.clock.now(), action, step: 'approved', by: 'ann' }]);
    await scene.wait(DAY - MINUTE - SECOND);
    scene.onTurn = () => pass(scene, SECOND);
    await scene.again();
    expect(scene.sent).toEqual([]);
    expect((await scene.lines()).find(({ step }) => step === 'answered')).toMatchObject({
      answer: { kind: 'not_sent', why: 'approval_expired' },
    });
  });
});

describe('grace periods and approvals for an action', () => {
  const approve = (scene: Scene) =>
    scene
      .journal()
      .append([{ at: scene.clock.now(), action: scene.explain('a')?.action ?? '', step: 'approved', by: 'ann' }]);

  it('grace and approval of one rule are not used by another rule, which waits for its own grace', async () => {
    const scene = await warmScene({ rules: [rule('ask', { mode: 'approve' }), rule('other', { grace: '30m' })] });
    expect(await scene.walk('a:ask=stuck,other=no_match')).toContain('awaiting_approval a ask');
    await approve(scene);
    expect(await scene.walk('a:ask=no_match,other=stuck')).toBe(
      'approved a ann\ncleared a rule_changed\nmarked a other\nleft a grace',
    );
    await scene.wait(HOUR);
    expect(await scene.again()).toMatch(/^intent a other 1/);
    expect((await scene.lines()).find(({ step }) => step === 'intent')).not.toHaveProperty('approvedBy');
  });

  it('grace and approval are discarded if another rule requests approval', async () => {
    const scene = await warmScene({ rules: [rule('ask', { mode: 'approve' }), rule('other', { mode: 'approve' })] });
    await scene.walk('a:ask=stuck,other=no_match');
    await approve(scene);
    expect(await scene.walk('a:ask=no_match,other=stuck')).toBe(
      'approved a ann\ncleared a rule_changed\nawaiting_approval a other',
    );
    expect(scene.sent).toEqual([]);
    // The discarded approval is not restored.
    expect(await scene.walk('a:ask=stuck,other=no_match')).toBe('cleared a rule_changed\nawaiting_approval a ask');
    expect(scene.sent).toEqual([]);
  });

  it.each(['approve', 'enforce'])('grace and approval are discarded if the policy changes: %s', async mode => {
    const section = { rules: [rule('jobs', { mode, grace: mode === 'enforce' ? '30m' : '0s' })] };
    const scene = await warmScene(section);
    await scene.walk('a');
    if (mode === 'approve') await approve(scene);
    scene.policy = 'another';
    await scene.restart(section);
    await scene.wait(HOUR);
    await scene.walk('a');
    await scene.again();
    expect(await scene.again()).toContain(mode === 'approve' ? 'awaiting_approval a jobs' : 'marked a jobs');
    expect(scene.sent).toEqual([]);
  });

  it('grace and approval are discarded if the mode changes', async () => {
    const scene = await warmScene({ rules: [rule('jobs', { mode: 'plan', grace: '30m' })] });
    await scene.walk('a');
    await scene.restart({ rules: [rule('jobs', { grace: '30m' })] });
    await scene.wait(HOUR);
    await scene.walk('a');
    await scene.again();
    expect(await scene.again()).toContain('marked a jobs');
    expect(scene.sent).toEqual([]);
  });

  it('grace and approval do not permit a second attempt under another policy', async () => {
    const scene = await warmScene({ rules: [rule('jobs')] });
    scene.answers = ['500'];
    await scene.walk('a');
    scene.policy = 'another';
    await scene.restart();
    await scene.warm();
    for (const ms of [0, 5, 10, 45]) await scene.wait(ms * SECOND);
    expect(await scene.walk('a')).toBe('ended a gave_up may_no_longer_act');
    expect(scene.sent).toEqual(['a']);
  });
});

describe('clock steps', () => {
  const HOURLY = { limits: { perRun: 9, perHour: 1, perDay: 9, spacing: '0s' }, rules: [rule('jobs')] };

  it('setting the clock forward does not reset limits', async () => {
    const scene = await warmScene({ ...HOURLY, limits: { ...HOURLY.limits, perDay: 1, perHour: 9 } });
    await scene.walk('a');
    scene.clock.step(25 * HOUR);
    await scene.wait(SECOND);
    for (let walk = 0; walk < 5; walk += 1) await scene.walk('b');
    expect(scene.sent).toEqual(['a']);
    expect(scene.explain('b')?.held).toBe('limit_day');
    await scene.wait(DAY);
    await scene.walk('b');
    expect(scene.sent).toEqual(['a', 'b']);
  });

  it('setting the clock back neither resets limits nor extends their windows', async () => {
    const scene = await warmScene(HOURLY);
    await scene.walk('a');
    scene.clock.step(-5 * HOUR);
    await scene.wait(SECOND);
    for (let walk = 0; walk < 4; walk += 1) await scene.walk('b');
    expect(scene.sent).toEqual(['a']);
    await scene.wait(HOUR);
    await scene.walk('b');
    await scene.walk('c');
    expect(scene.sent).toEqual(['a', 'b']);
    await scene.wait(HOUR);
    await scene.walk('c');
    expect(scene.sent).toEqual(['a', 'b', 'c']);
  });

  it('no cancel is sent after the next walk if the clock was set forward during a look-up', async () => {
    const scene = await warmScene();
    scene.events.set('m-a', scene.clock.now() - 3 * HOUR);
    scene.onEvents = async () => {
      scene.onEvents = () => undefined;
      for (let walk = 0; walk < 4; walk += 1) {
        await pass(scene, MINUTE);
        scene.list('a:asks_events b');
      }
      scene.clock.step(25 * MINUTE);
    };
    await scene.walk('a:asks_events');
    expect(await scene.walk('b')).toBe('left b too_early');
    expect(scene.sent).toEqual([]);
  });

  it.each(['while the agent runs', 'before it restarts'])(
    'setting the clock back does not reactivate an expired rule: %s',
    async when => {
      const scene = await warmScene({ rules: [rule('jobs', { expires: EXPIRES })] });
      await scene.wait(2 * HOUR);
      expect(await scene.walk('a')).toBe('ended a planned stuck');
      scene.clock.step(-6 * HOUR);
      if (when === 'before it restarts') await scene.restart();
      for (let walk = 0; walk < 5; walk += 1) await scene.walk('a b');
      expect(scene.sent).toEqual([]);
    },
  );
});

describe('cancels for one callback', () => {
  it('a callback is not cancelled again under another id after idFrom changes', async () => {
    const scene = await warmScene();
    scene.answers = ['302', '302'];
    await scene.walk('a');
    await scene.restart({ idFrom: 'messageId', rules: [rule('jobs')] });
    for (let walk = 0; walk < 4; walk += 1) await scene.walk('a');
    expect([scene.sent, scene.explain('a')?.held]).toEqual([['a'], 'sent_before']);
    for (let walk = 0; walk < 3; walk += 1) await scene.walk('a#2');
    expect(scene.sent).toEqual(['a', 'm-a']);
  });

  it('a cancel is retried with increasing delays after 429 responses', async () => {
    const scene = await warmScene();
    scene.answers = Array.from({ length: 99 }, () => '429');
    const times: number[] = [];
    scene.onSend = () => times.push(scene.passed());
    for (let walk = 0; walk < 24 * 60; walk += 1) await scene.walk('a');
    const minutes = times.map((time, index) => (time - (times[index - 1] ?? time)) / MINUTE);
    expect(minutes).toEqual([0, 1, 10, 20, 40, 80, 160, 320, 640]);
  });
});

it('journal times are whole milliseconds, although the monotonic clock has fractions', async () => {
  const scene = await warmScene({ rules: [rule('jobs')] });
  const { now } = scene.clock;
  scene.clock.now = () => Math.floor(now());
  await pass(scene, 0.25);
  await scene.walk('a');
  const times = (await scene.lines()).map(({ at }) => at);
  expect(times.length).toBeGreaterThan(1);
  expect(times).toEqual(times.map(Math.trunc));
});
