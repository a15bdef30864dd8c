/** One world: a service and its history, operators, and one or two machines that run the agent with a shared store. */
import { rmSync, writeFileSync } from 'node:fs';
import { createRandom, type Random } from '../../src/emulator/random.ts';
import type { Change } from '../../src/model/change.ts';
import { StoreError } from '../../src/store/errors.ts';
import { type Actor, actors, type Host, type Machine, type Process } from './agent.ts';
import { checkAlerts } from './check-alerts.ts';
import { checkCancel, type Sent } from './check-cancel.ts';
import { checkNumbers, fallen, outlasts, readScrape, type Scrape } from './check-numbers.ts';
import { checkAudit, checkLine, checkSending, intentOf, situationsOf } from './check-operators.ts';
import { createDisk } from './disk.ts';
import { type Line, linesOf, PREFIX } from './journal-lines.ts';
import { createMeddlers, type Place } from './meddling.ts';
import { createOperators } from './operators.ts';
import { createOrdering } from './ordering.ts';
import { createRoundRecord } from './record.ts';
import { createService } from './service.ts';
import { ACCOUNT, CANARY, configOf, MINUTE } from './settings.ts';
import { createSlots, type Slot, type SlotsDeps, type Who } from './slots.ts';
import type { Life, Step } from './steps.ts';
import type { Tally } from './tally.ts';
import { settle, type Time } from './time.ts';
import { arrive, beginRun, createTruth, endOf, isListed, runAt, setSize, traffic } from './truth.ts';

export interface World {
  /** Executes one step, then checks alerts and exposed numbers. */
  happen(step: Step): Promise<void>;
  readonly wrong: readonly string[];
  /** Checks the store for secrets and lost orders. Called once, at the end. */
  end(): Promise<void>;
}

/** The place that a process reaches when it commits a journal line, by the line's step. */
const PLACE_OF: Readonly<Record<string, Place>> = {
  intent: 'intent committed',
  awaiting_approval: 'approval requested',
  approved: 'order executed',
  breaker_reset: 'order executed',
  order_refused: 'order executed',
};

export async function createWorld(life: Life, time: Time, stopFile: string, tally: Tally): Promise<World> {
  const random: Random = createRandom(life.seed);
  const truth = createTruth();
  const service = createService({ time, truth, shape: life.shape, random, clockOffset: () => machine.offset });
  let sequence = 0;
  const next = () => {
    sequence += 1;
    return sequence;
  };
  const record = createRoundRecord();
  const machine: Machine = { time, service, offset: 0, isShared: life.replicas > 1, random: random.fraction };
  const lines: Line[] = [];
  const sent: Sent[] = [];
  const darkSteps: { at: number; by: number }[] = [];
  const wrong: string[] = [];
  let isStopped = false;
  let hidden = 0;
  let shown: { readonly scrape: Scrape; readonly process: Process } | undefined;
  const highest = new Map<string, number>();
  const firing = new WeakMap<Process, Map<string, number>>();
  let lastFiring = new Map<string, number>();
  let text = '';

  const found = (what: string) => void wrong.push(`at ${time.now / 1000} s: ${what}`);

  const disk = createDisk(time, ({ account, key, before, after }) => {
    if (key.startsWith(PREFIX) && before !== undefined)
      found(`a line of the journal is ${after === undefined ? 'deleted' : 'overwritten'}: ${account} ${key}`);
  });
  const operators = createOperators({
    time,
    machine,
    disk,
    next,
    returned: ({ kind, result }) => tally.add(`order ${kind} ${result}`),
    failed: ({ kind }, error) => found(`the command ${kind} failed: ${String(error)}`),
  });
  const { orders } = operators;
  const ordering = createOrdering(time, lines, given => {
    tally.add(`order ${given.kind}`);
    operators.give(given);
  });
  const meddlers = createMeddlers<Step>(time, (what, place) => {
    tally.add(`${what.kind} when ${place}`);
    void change(what);
  });

  function watchCancel(of: Process, id: string): void {
    const what = checkCancel(id, of, {
      now: time.now,
      truth,
      shape: life.shape,
      record,
      lines,
      sent,
      isStopped,
      darkSteps,
    });
    const now = next();
    for (const each of [...what, ...checkSending(id, of, now, { orders, lines, sent })]) found(`DELETE ${id}: ${each}`);
    const intent = intentOf(id, of, lines);
    const { action = '', attempt = 0 } = intent?.entry ?? {};
    sent.push({ id, action, attempt, sequence: now, at: time.now, status: undefined });
    tally.add('DELETE');
    if (intent) tally.add(`DELETE by ${intent.entry.rule} (${intent.entry.mode}), attempt ${attempt}`);
    for (const each of situationsOf(of, now, { orders, lines, sent })) tally.add(each);
  }

  const hooks: SlotsDeps['hooks'] = {
    witness(of) {
      // Requests outside rounds are sent by auto-cancel.
      const actor: Actor = actors.getStore() ?? 'acting';
      const recorded = record.witness(of, actor, () => time.now);
      return {
        asked: recorded.asked,
        answered(answer) {
          hidden += answer.hidden.length;
          if (answer.quality !== 'whole') tally.add(`${answer.quality} responses`);
          recorded.answered(answer);
        },
        connecting(what) {
          if (actor !== 'acting') return 0;
          if (what === 'cancel') return meddlers.reach('connecting').hold;
          return what === 'look' ? meddlers.reach('looking').hold : 0;
        },
        sent(id) {
          watchCancel(of, id);
          meddlers.reach('sent');
        },
        cancelAnswered(id, status) {
          tally.add(status === undefined ? 'DELETE without response' : `DELETE status ${status}`);
          if (status !== 401) of.accepted += 1;
          const last = sent.findLast(each => each.id === id);
          if (last) last.status = status;
        },
      };
    },
    store: (agent, host) =>
      disk.storeFor(agent, machine.isShared, (account, changes) => committed(host, account, changes)),
    log(line) {
      if (line.includes(CANARY)) found(`a secret in a log line or span: ${line}`);
      if (line.startsWith('error bug') || line.includes('"reason":"bug"')) found(line);
    },
    roundBegins(of, actor) {
      if (!firing.has(of)) firing.set(of, storedFiring());
      record.begin(of, actor, time.now);
    },
    roundEnded(_of, actor, success, reason) {
      record.end(actor, success, reason, time.now);
      tally.add(
        `round ${actor.collector} ${actor.round} ${success ? 'succeeded' : reason === undefined ? 'sent no request' : `failed: ${reason}`}`,
      );
    },
    evaluated: of => check(of),
    closed(of) {
      tally.add('handed over');
      record.forget(of, time.now);
    },
  };

  async function committed(host: Host, account: string, changes: readonly Change[]): Promise<void> {
    if (account !== ACCOUNT || !host.account) return;
    const added = linesOf(changes, host.account, time.now, next);
    for (const line of added) {
      lines.push(line);
      const { entry } = line;
      for (const what of checkLine(line, { orders, lines })) found(what);
      tally.add(`journal ${entry.step}${entry.step === 'ended' ? ` ${entry.outcome}` : ''}`);
      ordering.committed(line);
    }
    for (const { entry } of added) {
      const place = PLACE_OF[entry.step];
      if (place === undefined) continue;
      const { hold, isLost } = meddlers.reach(place);
      if (hold > 0) await new Promise<void>(resolve => void time.after(hold, resolve));
      if (!isLost) continue;
      tally.add('responses of commits lost');
      throw new StoreError('slow', 'the store');
    }
    const now = next();
    for (const line of added) line.returned = now;
  }

  const slots = createSlots({
    count: life.replicas,
    settings: life.settings,
    time,
    machine,
    tally,
    hooks,
    configOf: settings => configOf(settings, stopFile),
    died: process => record.forget(process, time.now),
    found,
  });

  /** Checks the firing alerts. Called after each step and after each evaluation. */
  function check(of: Process): void {
    const before = firing.get(of) ?? new Map<string, number>();
    const now = new Set(of.firing());
    for (const name of now) if (!before.has(name)) tally.add(`alert ${name} fires`);
    for (const name of before.keys()) if (!now.has(name)) tally.add(`alert ${name} is resolved`);
    for (const what of checkAlerts({ now: time.now, truth, shape: life.shape, record, process: of }, before, now))
      found(what);
    lastFiring = new Map([...now].map(name => [name, before.get(name) ?? of.evaluatedAt]));
    firing.set(of, lastFiring);
  }

  /** Returns the names of the firing alerts of rules in the store, and when they started to fire (ms since the world's start). */
  const storedFiring = () =>
    new Map(
      [...disk.rows(ACCOUNT)].flatMap(([key, value]) => {
        if (!key.startsWith('alerts/state/')) return [];
        const { rule, state, kind } = JSON.parse(value) as {
          rule: string;
          state: { phase: string };
          kind?: string;
        };
        return state.phase === 'firing' && kind === undefined
          ? [[rule, lastFiring.get(rule) ?? time.now] as const]
          : [];
      }),
    );

  async function scrape(of: Process): Promise<void> {
    const body = await of.scrape();
    if (body.includes(CANARY)) found('a secret on /metrics');
    tally.add('scrapes');
    const isSame = shown?.process === of;
    const now = isSame && body === text && shown ? shown.scrape : readScrape(body);
    text = body;
    const lower = [
      ...fallen(highest, now.rising, false),
      ...(isSame && shown ? fallen(shown.scrape.rising, now.rising, true) : []),
    ];
    for (const what of new Set(lower)) found(what);
    for (const [series, value] of now.rising) if (outlasts(series)) highest.set(series, value);
    shown = { scrape: now, process: of };
    const checked = checkNumbers({ now: time.now, truth, shape: life.shape, record, process: of }, now, hidden);
    tally.add('numbers compared', checked.count);
    for (const what of checked.wrong) found(what);
  }

  function stepClock(by: number): void {
    if (by === 0) return;
    const processes = slots.processes();
    tally.add(`clock set ${processes.length > 0 ? '' : 'in the dark '}${by > 0 ? 'forward' : 'back'}`);
    for (const process of processes) {
      const last = process.steps.at(-1);
      // Merge simultaneous clock changes, which the agent cannot distinguish.
      if (last?.at === time.now) process.steps.splice(-1, 1, { ...last, by: last.by + by });
      else process.steps.push({ at: time.now, by, wallBefore: process.clock.now() });
    }
    if (processes.length === 0) darkSteps.push({ at: time.now, by });
    machine.offset += by;
  }

  function afterDeath(slot: Slot, { settings, clock }: Extract<Step, { kind: 'kill' | 'stop' }>): void {
    if (settings) slot.settings = settings;
    stepClock(clock * MINUTE);
  }

  function reload({ policy, who }: Extract<Step, { kind: 'reload' }>): void {
    const slot = slots.slotFor(who);
    slot.settings = { ...slot.settings, policy };
    const { host } = slot;
    if (!host?.isUp) return;
    host.reload(configOf(slot.settings, stopFile)).then(
      () => tally.add('reloads'),
      () => tally.add('reloads that failed'),
    );
  }

  function freeze(who: Who, ms: number): void {
    const { host } = slots.slotFor(who);
    host?.life.stop();
    time.after(ms, () => host?.life.proceed());
  }

  const entryOf = (index: number) => truth.entries[index % truth.entries.length];

  async function change(step: Step): Promise<void> {
    switch (step.kind) {
      case 'pass':
        return time.advance(step.ms);
      case 'arrive':
        return void time.after(step.soon, () => void arrive(truth, step.arrival, time.now));
      case 'leave':
        return void time.after(step.soon, () => {
          const entry = entryOf(step.entry);
          if (entry && entry.leftAt === undefined) entry.leftAt = time.now;
        });
      case 'run again': {
        const entry = entryOf(step.entry);
        const run = entry && runAt(entry, time.now);
        // Only a callback that has ended on its own can run again.
        if (!entry || !run || !isListed(entry, time.now) || run.cancelledAt !== undefined || endOf(run) > time.now)
          return;
        tally.add('run again by hand');
        return beginRun(truth, entry, step.hangs ? 'hangs' : 'healthy', step.length, time.now);
      }
      case 'traffic':
        for (let count = 0; count < step.count; count += 1) traffic(truth, step.late, time.now);
        return;
      case 'flow':
        return setSize(truth, `tenant-${step.key}`, step.size, time.now);
      case 'fault':
        return service.arm(step.question, step.fault, step.skip, step.count);
      case 'log unreadable':
        return service.arm('lookup', 'some_unreadable', 0, 12);
      case 'cancel fault':
        return service.armCancel(step.fault, step.count);
      case 'outage':
        service.outageUntil = time.now + step.ms;
        return;
      case 'token refused':
        service.refusesUntil = time.now + step.ms;
        return;
      case 'store fails':
        disk.failsUntil = time.now + step.ms;
        return;
      case 'store slow':
        disk.slowUntil = time.now + step.ms;
        disk.latency = step.latency;
        return;
      case 'clock':
        return stepClock(step.by);
      case 'kill': {
        const slot = slots.slotFor(step.who);
        slot.downFor = step.down;
        slot.onDeath = () => afterDeath(slot, step);
        slot.deathIn = step.left + 1;
        return;
      }
      case 'stop': {
        const slot = slots.slotFor(step.who);
        if (!slot.host?.isUp) return;
        slot.onDeath = () => afterDeath(slot, step);
        slots.terminate(slot, step.down);
        return;
      }
      case 'freeze':
        return freeze(step.who, step.ms);
      case 'cut off':
        slots.slotFor(step.who).cutOffUntil = time.now + step.ms;
        return;
      case 'meddle':
        return meddlers.arm(step);
      case 'reload':
        return reload(step);
      case 'pause':
        if (step.freezes > 0) freeze('holder', step.freezes);
        return ordering.add(step);
      case 'approve':
      case 'resume':
      case 'reset':
        return ordering.add(step);
      case 'stop file':
        isStopped = step.isThere;
        if (isStopped) writeFileSync(stopFile, '');
        else rmSync(stopFile, { force: true });
        return;
    }
  }

  for (const arrival of life.begin) arrive(truth, arrival, time.now);
  setSize(truth, 'tenant-0', 3, time.now);
  await slots.start();
  return {
    wrong,
    async happen(step) {
      const before = time.now;
      await change(step);
      await settle();
      // Skip the checks if no time has passed, because then the state is unchanged.
      if (time.now === before) return;
      const { account } = slots.holder().host ?? {};
      if (!account?.isRunning || account.leaseLeft() <= 0) return;
      await scrape(account);
      check(account);
    },
    async end() {
      for (const { host } of slots.all) host?.life.kill();
      rmSync(stopFile, { force: true });
      const stored = [disk.rows(ACCOUNT), disk.rows('')];
      for (const rows of stored)
        for (const [key, value] of rows) if (value.includes(CANARY)) found(`a secret in the store: ${key}`);
      const values = stored.flatMap(rows => [...rows.values()]);
      for (const what of checkAudit({ orders }, values)) found(what);
      for (const [fault, count] of service.met) tally.add(`fault ${fault}`, count);
      tally.add('commits', disk.counts.commits);
      tally.add('commits refused', disk.counts.refused);
    },
  };
}
