/** Records the history of an account in simulated time, and runs the checks on it. */

import { Recorder } from '../../../src/history/recorder.ts';
import { seriesName } from '../../../src/history/series-name.ts';
import { EVENT_STATES, MESSAGE_OUTCOMES } from '../../../src/model/message.ts';
import { checkInputOf } from '../../../src/rules/checks/account.ts';
import { createRecordedForChecks } from '../../../src/rules/checks/recorded.ts';
import { checkAccount } from '../../../src/rules/checks/run.ts';
import { createMemoryStore } from '../../../src/store/memory.ts';
import { calmAccount, checkedAccountOf, NOON } from '../../support/calm-account.ts';
import { createManualClock } from '../../support/manual-clock.ts';
import { createTestLog } from '../../support/silent.ts';
import { finished, key, MINUTE, paused, queueOf, tallyOf, waitlist } from './check-scene.ts';

export const HOUR = 60 * MINUTE;

/** Creates an account whose history starts at noon. `keep`: retention of the samples (ms). */
export async function createRecordedScene({ keep = 0 } = {}) {
  const clock = createManualClock(NOON);
  const store = createMemoryStore();
  const account = calmAccount();
  const open = async () => {
    const recorder = await Recorder.open({ account: 'a', store, clock, log: createTestLog() });
    recorder.use({ keep, maxBytes: 1e9 });
    return { recorder, forChecks: createRecordedForChecks() };
  };
  let process = await open();
  /** Whether the service responds, and whether it lists flow-control keys. */
  let [isReadable, hasKeys] = [true, true];

  const tail = () => account.collectors.events.rounds[0];
  function input() {
    const now = clock.now();
    for (const { collector, rounds } of Object.values(account.collectors)) {
      const success = isReadable && (hasKeys || collector !== 'flow_control');
      for (const round of rounds) Object.assign(round, { success, stale: !success }, success && { dataAt: now });
    }
    Object.assign(account, { now, serviceNow: now });
    return checkInputOf(
      checkedAccountOf(account, { autoCancel: undefined, recent: (...of) => process.recorder.recent(...of) }),
    );
  }
  const results = () => checkAccount(input());

  return {
    account,
    clock,
    get recorder() {
      return process.recorder;
    },
    /** Sets whether the service responds. */
    setReadable(value: boolean) {
      isReadable = value;
    },
    /** Sets whether flow-control keys can be read. */
    setKeysReadable(value: boolean) {
      hasKeys = value;
    },
    /** Passes minutes, each of which changes the account before its sample. Calls `each` after every `every`-th sample. */
    async minutes(count: number, change: (minute: number) => void = () => undefined, each?: () => void, every = 1) {
      for (let minute = 0; minute < count; minute += 1) {
        await clock.advance(MINUTE);
        if (isReadable) account.events.gauges.newest = clock.now();
        queueOf(account).oldestEntered = clock.now() - HOUR;
        account.queue.lag = 0;
        change(minute);
        const facts = input();
        const { finished: ended, events } = tallyOf(account);
        const { messages, entered } = queueOf(account);
        const one = key(account);
        const attempts = process.forChecks.attempts(facts.shown.events?.committed, clock.now());
        const values = new Map<string, number>([
          ...attempts,
          ...MESSAGE_OUTCOMES.map(outcome => [finished(outcome), ended[outcome]] as const),
          ...EVENT_STATES.map(state => [seriesName('delivery_events_total', { state }), events[state]] as const),
          ['delivery_messages_overdue_total', account.events.log.overdue],
          ['delivery_event_log_counting', Number(tail()?.success === true)],
          ['delivery_event_log_gaps_total', 0],
          ['delivery_dlq_entered_total', entered],
          ...(isReadable && messages !== undefined ? [['delivery_dlq_messages', messages] as const] : []),
          ...(isReadable && hasKeys
            ? [[waitlist, one.waitlistSize ?? 0] as const, [paused, Number(one.paused)] as const]
            : []),
        ]);
        await process.recorder.sample(values, { hourly: () => process.forChecks.hourly(input()) });
        if (minute % every === 0) each?.();
      }
    },
    /** Stores the history and opens it in another process, after `down` milliseconds. */
    async restart(down = 0) {
      await store.commit('a', process.recorder.unsaved());
      await clock.advance(down);
      process = await open();
    },
    results,
    /** Returns the texts of the findings of a kind. */
    found: (kind: string) =>
      results().flatMap(({ check, findings }) => (check.kind === kind ? findings.map(({ text }) => text) : [])),
    kinds: () => results().flatMap(({ check, findings }) => (findings.length > 0 ? [check.kind] : [])),
    isUnknown: (kind: string) => results().some(({ check, unknown }) => check.kind === kind && unknown.length > 0),
  };
}

export type RecordedScene = Awaited<ReturnType<typeof createRecordedScene>>;
