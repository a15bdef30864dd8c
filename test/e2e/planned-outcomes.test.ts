import { expect, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { setStage } from './stuck-callback.ts';

it.concurrent.for(['before observed 1', 'after observed 1', ''])(
  'the report counts each outcome of planned callbacks once, although agents are killed: %j',
  async (crash, { onTestFinished }) => {
    const scene = { stuck: 5, autoCancel: { mode: 'plan' } };
    const stage = await setStage(close => void onTestFinished(async () => void (await close())), scene);
    const [ok = '', failed = '', removed = '', cancelled = ''] = stage.stuck;
    const linesOf = async (step: string) => (await stage.journal()).lines.filter(line => line.step === step);
    const report = async () => JSON.parse((await stage.cli('report', '--json')).stdout);
    const first = stage.startAgent(crash);
    await eventually(async () => expect(await linesOf('ended')).toHaveLength(5));
    const none = { success: 0, failed: 0, in_progress: 0, unknown: 0 };
    expect(await report()).toEqual([{ rule: 'stuck', planned: 5, ...none, observing: 5, wrong: '0 of 0' }]);
    const { state } = stage.emulator;
    state.setCallback(ok, 'CALLBACK_SUCCESS');
    state.setCallback(failed, 'CALLBACK_FAIL');
    state.setCallback(cancelled, 'CALLBACK_CANCELED');
    state.removeDlqEntry(removed);
    if (crash === '') first.kill('SIGKILL');
    expect(await first.ended).toBe('SIGKILL');
    const second = stage.startAgent();
    await eventually(async () => expect(await linesOf('observed')).toHaveLength(4));
    const done = { planned: 5, success: 1, failed: 1, in_progress: 0, unknown: 2, observing: 1, wrong: '1 of 2' };
    expect(await report()).toEqual([{ rule: 'stuck', ...done }]);
    second.kill('SIGKILL');
    await second.ended;
    stage.startAgent();
    await eventually(() => expect(stage.walks()).toBeGreaterThan(2));
    expect(await report()).toEqual([{ rule: 'stuck', ...done }]);
    const byReason = (await linesOf('observed')).map(line => 'reason' in line && line.reason);
    expect(byReason.toSorted()).toEqual(['read_canceled', 'read_fail', 'read_gone', 'read_success']);
    expect(stage.deletes).toEqual([]);
    expect((await stage.cli('report')).stdout).toBe(
      'rule   planned  success  failed  in progress  unknown  observing  wrong\n' +
        'stuck  5        1        1       0            2        1          1 of 2\n',
    );
  },
);
