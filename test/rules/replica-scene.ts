/**
 * Processes that share one store. The leader evaluates and sends one alert of account a. Each can be stopped at any step,
 * permanently or temporarily.
 */

import { Delivery } from '../../src/notify/delivery.ts';
import { SENT } from '../../src/notify/sent-log.ts';
import { type AccountAlerts, openAccountAlerts } from '../../src/rules/account-alerts.ts';
import { createEvaluation } from '../../src/rules/evaluation.ts';
import { NO_ACCOUNT, type Store } from '../../src/store/store.ts';
import { createSharedStore, type SharedStore } from '../support/fake-group.ts';
import { createTestLog } from '../support/silent.ts';
import {
  ACCEPTED,
  createClock,
  createCounts,
  createReceiver,
  never,
  rule,
  ruleResult,
  SECOND,
  sendAll,
} from './alerting-scene.ts';

/** Interval of evaluations. */
export const TICK = 5 * SECOND;
export const REPEAT_EVERY = 60 * SECOND;

export interface SentNotice {
  readonly by: string;
  readonly key: string;
  readonly status: string;
  readonly text: string;
  readonly at: number;
}

export interface TestReplica {
  /** Runs one lease renewal, one evaluation and one pass of the sender. Returns early if the replica stops. */
  tick(): Promise<void>;
  /** Makes the replica stop when it reaches this step number. There is a step before and after each commit and each request. */
  stopAt(step: number): void;
  /** Resumes the stopped replica. Resolves when the interrupted tick has ended. */
  wake(): Promise<void>;
  readonly isStopped: boolean;
  /** Number of steps so far. */
  readonly steps: number;
  /** Description of the step at which the replica stopped. */
  readonly stoppedAt: string | undefined;
}

export interface ReplicaScene {
  readonly shared: SharedStore;
  readonly sent: readonly SentNotice[];
  /** Whether the alert's condition holds. */
  holds: boolean;
  pass(ms: number): void;
  join(id: string): TestReplica;
}

const rules = [rule('Some', { for: 2 * TICK })];

export function createReplicaScene(): ReplicaScene {
  const clock = createClock();
  const shared = createSharedStore(clock);
  const sent: SentNotice[] = [];
  const scene = { shared, sent, holds: false, pass: clock.pass, join };

  function join(id: string): TestReplica {
    const own = shared.join(id);
    const { lease } = own;
    const log = createTestLog();
    let [steps, last] = [0, Number.POSITIVE_INFINITY];
    let stopped: { readonly at: string; readonly go: () => void } | undefined;
    let stopping = Promise.withResolvers<void>();
    let running: Promise<void> = Promise.resolve();
    let alerts: AccountAlerts | undefined;
    let isOver = false;
    let evaluate = async () => {};

    function step(at: string): Promise<void> | undefined {
      steps += 1;
      if (steps !== last) return undefined;
      const { promise, resolve } = Promise.withResolvers<void>();
      stopped = { at, go: resolve };
      stopping.resolve();
      return promise;
    }
    const store: Store = {
      ...own,
      async commit(account, changes) {
        const keys = changes.map(({ key }) => key).join(' ');
        await step(`before the commit of ${keys}`);
        await own.commit(account, changes);
        await step(`after the commit of ${keys}`);
      },
    };
    const hook = createReceiver('changes', 'hook', 0, { by: ['alertname'], wait: TICK, repeatEvery: REPEAT_EVERY });
    hook.send = async (notices, _signal, group) => {
      const [{ status } = { status: '' }] = notices;
      const text = JSON.stringify(notices.map(({ status, startsAt }) => [status, startsAt]));
      sent.push({ by: id, key: group?.key ?? '', status, text, at: clock.now() });
      await step('after the request');
      return ACCEPTED;
    };
    const confirm = async () => {
      await lease.renew();
      return lease.remaining() > 0;
    };
    const mayNotify = () => (lease.remaining() > 0 ? (true as const) : confirm());
    const { notifications } = createCounts();
    const states = { notices: () => alerts?.notices() ?? [], isKnown: () => alerts !== undefined };
    const delivery = new Delivery(hook, { states, store, mayNotify, notifications, clock, random: () => 0, log });

    async function renewLease(): Promise<void> {
      const phase = await lease.renew();
      isOver = phase === 'lost';
      if (phase !== 'leader' || alerts) return;
      delivery.load(await store.scan(NO_ACCOUNT, SENT));
      alerts = await openAccountAlerts({ account: 'a', store, mayNotify, ...sendAll, log });
      const evaluateRule = () => ruleResult(scene.holds ? [{ labels: {}, value: 1 }] : []);
      evaluate = createEvaluation({ alerts, rules, evaluateRule, clock, log });
    }
    async function work(): Promise<void> {
      await renewLease();
      // A process that has lost the lease ends.
      if (isOver) return;
      await evaluate();
      await delivery.run(never);
    }
    return {
      async tick() {
        if (stopped) return;
        stopping = Promise.withResolvers();
        running = work();
        await Promise.race([running, stopping.promise]);
      },
      stopAt(step) {
        last = step;
      },
      async wake() {
        stopped?.go();
        stopped = undefined;
        await running;
      },
      get isStopped() {
        return stopped !== undefined;
      },
      get steps() {
        return steps;
      },
      get stoppedAt() {
        return stopped?.at;
      },
    };
  }
  return scene;
}
