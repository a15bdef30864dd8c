/** Auto-cancel of one account with all its dependencies. Tests script the findings of rules. */

import { vi } from 'vitest';
import { type AccountAutoCancel, createAutoCancel } from '../../src/auto-cancel/account.ts';
import { createBrake } from '../../src/auto-cancel/brake.ts';
import type * as Judging from '../../src/auto-cancel/evaluate.ts';
import { readJournal } from '../../src/auto-cancel/journal.ts';
import { createOrders } from '../../src/auto-cancel/orders.ts';
import type { Clock } from '../../src/kit/clock.ts';
import type { CallbackSighting } from '../../src/model/callback.ts';
import type { RuleFinding } from '../../src/model/finding.ts';
import type { CancelResponse } from '../../src/model/journal.ts';
import type { DlqEntry } from '../../src/model/message.ts';
import { StoreError } from '../../src/store/errors.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import type { Store } from '../../src/store/store.ts';
import type { Reader, RunQuery, Writer } from '../../src/upstream/api.ts';
import { UpstreamError } from '../../src/upstream/errors.ts';
import { HOUR, MINUTE, optionsOf } from './auto-cancel-options.ts';
import type { Scene } from './auto-cancel-scene-type.ts';
import { journalText } from './journal-words.ts';
import { giveOrder, operatorClock } from './operators.ts';
import { createTestLog, createTestTracer } from './silent.ts';

/** Scripted findings of rules for a sighting, by rule name. */
const scripts = vi.hoisted(() => new WeakMap<CallbackSighting, () => ReadonlyMap<string, string> | undefined>());

/** Return scripted findings instead of evaluating rules; other tests cover the evaluation. */
vi.mock('../../src/auto-cancel/evaluate.ts', async importOriginal => {
  const original = await importOriginal<typeof Judging>();
  const evaluate = (
    rule: Judging.EvaluatedCallback['rule'],
    { sighting, id, lastEventAt, askedAt }: Judging.CallbackEvidence,
  ): RuleFinding => {
    const word = scripts.get(sighting)?.()?.get(rule.name) ?? 'stuck';
    const isIdle = typeof lastEventAt === 'number' && lastEventAt < askedAt - HOUR;
    const isUnknown = lastEventAt === undefined || lastEventAt === 'none';
    const idle = isIdle ? 'stuck' : isUnknown ? 'unknown_idle_for' : 'idle_for';
    const reason = id === undefined ? 'no_id' : word === 'asks_events' ? idle : word;
    const other = /^unknown|^no_id/.test(reason) ? 'unknown' : 'not_stuck';
    const verdict = reason === 'stuck' || reason === 'no_match' ? reason : other;
    return { rule: rule.name, verdict, reason, predicates: [] };
  };
  return { ...original, evaluate };
});

/** Cancel responses by keyword. With the suffix `!`, the cancel is also performed. By default, it is accepted and performed. */
const ANSWERS: Readonly<Record<string, CancelResponse>> = {
  '302': { kind: 'accepted', status: 302 },
  '400': { kind: 'refused', status: 400 },
  '401': { kind: 'denied', status: 401 },
  '403': { kind: 'denied', status: 403 },
  '404': { kind: 'missing', status: 404 },
  '405': { kind: 'denied', status: 405 },
  '429': { kind: 'limited', status: 429, retryAfter: 1000 },
  '500': { kind: 'unknown', status: 500 },
  timeout: { kind: 'unknown', status: undefined },
  unsent: { kind: 'not_sent', why: 'no connection' },
};

/**
 * Syntax of a callback. `a`: stuck. `a:idle_for`: every rule has this finding. `a:jobs=idle_for,others=no_match`: findings by
 * rule. `a@host`: URL host. `a#2`: another episode.
 */
const WORD = /^(\w+)(?::([\w=,]+))?(?:@(\w+))?(?:#(\w+))?$/;

interface CallbackEvidence {
  readonly sighting: CallbackSighting;
  readonly reasons: ReadonlyMap<string, string>;
}

const ACCOUNT = 'production';

export async function createScene(section: object): Promise<Scene> {
  let options = optionsOf(section);
  let [time, offset, walks, at] = [Date.UTC(2026, 5, 1), 0, 0, 0];
  let bornAt = time;
  let commitsLeft = Number.POSITIVE_INFINITY;
  let seen = new Map<string, CallbackEvidence>();
  let last = '';
  const names = new Map<string, string>();
  const sightings = () => [...seen.values()].map(({ sighting }) => sighting);
  const memory = createMemoryStore();
  const store: Store = {
    ...memory,
    async commit(account, changes, guard) {
      const isFailing = commitsLeft <= 0;
      if (!isFailing || scene.failedCommitsAreWritten) await memory.commit(account, changes, guard);
      if (isFailing) throw new Error('disk full');
      commitsLeft -= 1;
    },
  };
  const clock = {
    now: () => time + offset,
    monotonic: () => time - bornAt,
    async sleep(ms: number) {
      time += ms;
    },
    step(ms: number) {
      offset += ms;
    },
  };
  const entryOf = (id: string): DlqEntry => {
    const state = scene.states.has(id) ? scene.states.get(id) : 'in_progress';
    const sighting = seen.get(id)?.sighting.entry;
    return {
      ...sighting,
      id,
      dlqId: id,
      messageId: `m-${id}`,
      callbackState: state === 'gone' ? undefined : state,
      callbackMessageId: scene.messages.get(id),
      labels: ['x'],
      ...scene.rows.get(id),
    } as DlqEntry;
  };
  const ask = async (what: string, messageId: string) => {
    scene.asked.push(what);
    await scene.onAsked(what, messageId);
    if (scene.failing) throw scene.failing;
  };
  const readerAt = (priority: string) => ({
    async *dlqPages({ messageId = '', source }: { messageId?: string; source?: string }) {
      await ask(`${priority} dlq`, messageId);
      const id = messageId.slice(2);
      if (source !== undefined) {
        if (scene.workflowStates.size === 0) throw new UpstreamError('refused', 'no such question', { status: 400 });
        const callbackState = scene.workflowStates.get(id);
        yield { rows: callbackState ? [{ ...entryOf(id), callbackState }] : [], rejected: 0, isLast: true };
        return;
      }
      const rows = scene.states.get(id) === 'gone' ? [] : [entryOf(id)];
      yield { rows, rejected: scene.rejected.dlq, isLast: true };
    },
    async *eventPages({ messageId = '' }: { messageId?: string }) {
      await ask(`${priority} events`, messageId);
      if (scene.events.has(messageId) && scene.events.get(messageId) === undefined) throw new Error('no log');
      const newest = scene.events.get(messageId);
      const rows = newest === undefined ? [] : [{ messageId, state: 'active', time: newest }];
      await scene.onEvents(messageId);
      yield { rows, rejected: scene.rejected.events, isLast: true };
    },
    async *runPages(query: RunQuery) {
      await ask(`${priority} runs`, '');
      yield* scene.onRuns(query);
    },
  });
  const writer: Writer = {
    async cancel(id, signal, stop) {
      await scene.onTurn(id, signal);
      const why = stop();
      if (why) return { kind: 'not_sent', why };
      scene.sent.push(id);
      scene.onSend(id);
      const [, word = '302', isDone] = /^(\w+)(!?)$/.exec(scene.answers.shift() ?? '302!') ?? [];
      if (isDone) scene.states.set(id, 'canceled');
      return ANSWERS[word] as CancelResponse;
    },
  };
  const log = createTestLog();
  let autoCancel: AccountAutoCancel;
  let serve: () => Promise<void>;

  const view = () => ({
    facts: scene.hasFacts
      ? { at, walks, maxGap: 30 * MINUTE, sightings: sightings(), isPartial: scene.isPartial, reportsStates: true }
      : undefined,
    isFresh: scene.isFresh,
    eventsAreFresh: scene.eventsAreFresh,
  });
  /** The last walk of each replaced process. */
  const lastViews = new Map<number, ReturnType<typeof view>>();
  let holder = 0;
  async function start(): Promise<void> {
    lastViews.set(holder, view());
    [bornAt, walks] = [time, 0];
    holder += 1;
    const self = holder;
    const startedAt = time;
    // Look up the clock's functions on each call, because tests replace them.
    const ownClock: Clock = {
      now: () => clock.now(),
      monotonic: () => time - startedAt,
      sleep: (...args: Parameters<Clock['sleep']>) => (clock as Clock).sleep(...args),
    };
    const own: Store = {
      ...store,
      async commit(account, changes, guard) {
        if (self !== holder && account === ACCOUNT) throw new StoreError('not_held', ACCOUNT);
        await store.commit(account, changes, guard);
      },
    };
    const brake = createBrake(own, ownClock, log);
    await brake.synchronize([]);
    autoCancel = await createAutoCancel({
      brake,
      account: ACCOUNT,
      options,
      policy: scene.policy,
      store: own,
      lease: () => scene.lease && { ...scene.lease, left: self === holder ? scene.lease.left : 0 },
      replica: scene.lease && `replica ${self}`,
      walk: () => lastViews.get(self) ?? view(),
      reader: readerAt('look') as unknown as Reader,
      lastReader: readerAt('action') as unknown as Reader,
      writer: options.mode === 'enforce' ? writer : undefined,
      isStopped: () => scene.isStopped,
      clockSkew: () => scene.clockSkew,
      alertStates: () =>
        new Map([
          ...[...scene.unknownAlerts].map(name => [name, 'unknown'] as const),
          ...[...scene.firing].map(name => [name, 'firing'] as const),
        ]),
      clock: ownClock,
      log,
      tracer: createTestTracer(),
    });
    const { journal } = autoCancel;
    const accounts = [{ name: ACCOUNT, policy: scene.policy, journal }];
    const executeOrders = createOrders({ store: own, accounts: () => accounts, clock, log });
    serve = async () => {
      await brake.synchronize([journal]);
      await executeOrders();
    };
  }

  let read = 0;
  let logged = 0;
  /** Returns new journal lines, then skipped callbacks with reasons. */
  async function news(): Promise<string> {
    const lines = await readJournal(store, ACCOUNT);
    for (const { entry } of scene.sightings()) {
      const name = `${entry.dlqId ?? entry.messageId}`;
      names.set(autoCancel.explain(name)?.action ?? '', name);
    }
    for (const line of lines)
      if ('target' in line) names.set(line.action, `${line.target.dlqId ?? line.target.messageId}`);
    const written = lines.slice(read).map(line => journalText(line, action => names.get(action) ?? action));
    const left = log.lines.slice(logged).flatMap(({ fields, message }) => {
      const { dlqId, reason } = fields as { dlqId?: string; reason?: string };
      return message.endsWith('skipped') ? [`left ${dlqId} ${reason}`] : [];
    });
    [read, logged] = [lines.length, log.lines.length];
    return [...written, ...left].join('\n');
  }

  async function run(): Promise<string> {
    await autoCancel.run(new AbortController().signal);
    return news();
  }

  const scene: Scene = {
    list(words) {
      last = words;
      const before = seen;
      seen = new Map(
        words.split(' ').flatMap(word => {
          const [, id, says = 'stuck', host = 'h', episode = '1'] = WORD.exec(word) ?? [];
          if (id === undefined) return [];
          const each = says.includes('=')
            ? says.split(',').map(pair => pair.split('=') as [string, string])
            : undefined;
          const reasons = new Map(each ?? options.rules.map(({ name }) => [name, says] as const));
          const firstSeenAt = before.get(id)?.sighting.firstSeenAt ?? clock.now();
          const entry = { ...entryOf(id), url: `https://${host}.example.com/`, ...scene.rows.get(id) };
          const sighting = { entry, firstSeenAt, lastSeenAt: clock.now(), snapshots: 9, episode };
          scripts.set(sighting, () => seen.get(id)?.reasons);
          return [[id, { reasons, sighting }] as const];
        }),
      );
      [at, walks] = [clock.now(), walks + 1];
    },
    async walk(words) {
      time += MINUTE;
      scene.list(words);
      return run();
    },
    again: () => scene.walk(last),
    async wait(ms) {
      time += ms;
      return run();
    },
    async warm() {
      for (let count = 0; count < 3; count += 1) await scene.walk('');
    },
    async restart(section) {
      if (section) options = optionsOf(section);
      await start();
    },
    answers: [],
    states: new Map(),
    workflowStates: new Map(),
    rows: new Map(),
    messages: new Map(),
    events: new Map(),
    onRuns() {
      throw new UpstreamError('not_found', 'GET /v2/workflows/logs: status 404', { status: 404 });
    },
    asked: [],
    onAsked: () => undefined,
    onEvents: () => undefined,
    rejected: { dlq: 0, events: 0 },
    failing: undefined,
    failCommitsAfter(count = Number.POSITIVE_INFINITY) {
      commitsLeft = count;
    },
    failedCommitsAreWritten: false,
    isStopped: false,
    lease: undefined,
    firing: new Set(),
    unknownAlerts: new Set(),
    policy: 'p',
    clockSkew: 0,
    isFresh: true,
    eventsAreFresh: true,
    isPartial: false,
    hasFacts: true,
    sent: [],
    onTurn: () => undefined,
    onSend: () => undefined,
    clock,
    passed: () => time,
    store,
    journal: () => autoCancel.journal,
    autoCancel: () => autoCancel,
    sightings: () => (scene.hasFacts ? sightings() : []),
    async order(order) {
      const result = await giveOrder(order, {
        store,
        accounts: [ACCOUNT],
        clock: operatorClock(clock, serve),
        waitMs: 200,
      });
      await serve();
      return result;
    },
    pause: () => scene.order({ kind: 'pause', by: 'ann', reason: 'r' }),
    resume: () => scene.order({ kind: 'resume', by: 'ann', reason: 'r' }),
    explain: id => autoCancel.explain(id),
    wouldOpen: () => autoCancel.wouldOpen(),
    lines: () => readJournal(store, ACCOUNT),
    log,
  };
  await start();
  return scene;
}
