import { describe, expect, it } from 'vitest';
import { openAccountAlerts } from '../../src/alerts/account-alerts.ts';
import { createEvaluation } from '../../src/alerts/evaluation.ts';
import { holdsAll } from '../../src/alerts/holds.ts';
import type { Holding } from '../../src/alerts/judge.ts';
import { openJournal } from '../../src/auto-cancel/journal.ts';
import { createNotices } from '../../src/auto-cancel/notices.ts';
import type { JournalEntry } from '../../src/model/journal.ts';
import type { LogRecord } from '../../src/model/log-record.ts';
import { createRecordQueue } from '../../src/push/record-queue.ts';
import { createCollectorState } from '../../src/scheduler/board.ts';
import { createRunner } from '../../src/scheduler/runner.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import type { Store } from '../../src/store/store.ts';
import { rule, sendAll } from '../alerts/alerting-scene.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { createTestLog, createTestTracer, noOutbox } from '../support/silent.ts';

/** A store that can refuse commits, and the queue of log records over it. */
function createScene() {
  const inner = createMemoryStore();
  const commits: string[][] = [];
  let refuses = false;
  const store: Store = {
    ...inner,
    async commit(account, changes) {
      if (refuses) throw new Error('the store refuses');
      commits.push(changes.map(({ key }) => key.replace(/\d{9,}/g, '#')));
      await inner.commit(account, changes);
    },
  };
  const clock = createManualClock();
  const log = createTestLog();
  const queue = createRecordQueue({ store, clock, log });
  queue.use({ dropped: () => undefined });
  return {
    store,
    clock,
    log,
    queue,
    commits,
    refuse(next: boolean) {
      refuses = next;
    },
    /** Ids of records that may be sent now. */
    async sendable(): Promise<readonly string[]> {
      if (!queue.withRecords(['a']).includes('a')) return [];
      return (await queue.read('a')).flatMap(row => row.records()).map(({ id }) => id);
    },
  };
}

describe('a log record stands in the commit that makes it true', () => {
  it('of what a collector counts; it waits as long as the store refuses that', async () => {
    const { store, clock, log, queue, commits, refuse, sendable } = createScene();
    let rounds = 0;
    const record = (id: string): LogRecord => ({ kind: 'gap', id, at: undefined, from: 1, to: 2 });
    const state = createCollectorState(
      { account: 'a', collector: 'x' },
      { list: { every: 1000 } },
      { markAfter: 3, withdrawAfter: 20, withdrawAtMost: 1_800_000 },
      clock,
    );
    const observer = {
      name: 'x',
      restore: () => 0,
      observe: async () => ({
        fold: () => {
          rounds += 1;
          const changes = [{ key: 'count', value: String(rounds) }];
          return {
            memory: rounds,
            facts: rounds,
            changes,
            records: { records: [record(`gap/${rounds}`)], dropped: 0 },
          };
        },
        more: undefined,
      }),
    };
    const run = await createRunner({ observer, state, store, records: queue, clock, log, tracer: createTestTracer() });
    const round = () => run('list', new AbortController().signal);
    await round();
    expect(commits).toEqual([['x/count', 'push/logs/#/#/gap/1/1']]);
    expect(await sendable()).toEqual(['gap/1']);
    refuse(true);
    await round();
    expect(await sendable()).toEqual(['gap/1']);
    refuse(false);
    await round();
    expect(commits.at(-1)).toEqual(['x/count', 'push/logs/#/#/gap/2/1', 'push/logs/#/#/gap/3/1']);
    expect(await sendable()).toEqual(['gap/1', 'gap/2', 'gap/3']);
  });

  it('of an action that ends, whatever it comes to, and of no other line of the journal', async () => {
    const { store, queue, commits, refuse, sendable } = createScene();
    const journal = await openJournal(store, 'a', createNotices('a', [], noOutbox, queue));
    const target = { account: 'a', id: 'd', dlqId: 'd', messageId: 'm', episode: 'e' } as never;
    const common = { action: 'x', rule: 'jobs', mode: 'enforce', target } as const;
    const line = (outcome: 'expired' | 'confirmed', at: number): JournalEntry => ({
      ...common,
      at,
      step: 'ended',
      outcome,
      reason: 'r',
    });
    await journal.append([{ ...common, at: 1, step: 'marked', evidence: [], until: 2 }]);
    expect(await sendable()).toEqual([]);
    await journal.append([line('expired', 3)]);
    expect(commits.at(-1)).toEqual(['auto-cancel/journal/#', 'push/logs/#/#/cancel/x/expired/3/1']);
    refuse(true);
    await expect(journal.append([line('confirmed', 4)])).rejects.toThrow('refuses');
    refuse(false);
    await journal.append([line('confirmed', 5)]);
    expect(await sendable()).toEqual(['cancel/x/expired/3', 'cancel/x/confirmed/5']);
  });

  it('of an alert that is told, to whomever and though the store refuses it for a while', async () => {
    const { store, clock, log, queue, refuse, sendable } = createScene();
    const rules = [rule('Big', { for: 0 })];
    let holding: readonly Holding[] = [{ labels: { x: '1' }, value: 1 }];
    const common = { account: 'a', rules, store, outbox: noOutbox, holds: holdsAll, ...sendAll, log };
    const alerts = await openAccountAlerts({ ...common, records: queue });
    const evaluate = createEvaluation({ alerts, rules, judge: () => holding, isDoubtful: () => false, clock, log });
    const told = async () => (await sendable()).map(id => id.split('/')[2]);
    await evaluate();
    await evaluate();
    expect(await told()).toEqual(['firing']);
    refuse(true);
    holding = [];
    await evaluate();
    expect(await told()).toEqual(['firing']);
    refuse(false);
    await evaluate();
    expect(await told()).toEqual(['firing', 'resolved']);
    await alerts.save();
    expect(await told()).toEqual(['firing', 'resolved']);
  });
});
