/** One world: a service with its truth, a machine with its disk, the agent on it, operators, and what they all do to each other. */
import { rmSync, writeFileSync } from 'node:fs';
import { createRandom, type Random } from '../../src/emulator/random.ts';
import { giveOrder, type Order } from '../support/operators.ts';
import { type Actor, actors, type Machine, type Process, type ProcessHooks, startProcess } from './agent.ts';
import { createDisk } from './disk.ts';
import { type Line, linesOf } from './journal-lines.ts';
import { judgeAlerts } from './judge-alerts.ts';
import { judgeCancel, type Sent } from './judge-cancel.ts';
import { fallen, judgeNumbers, outlasts, readScrape, type Scrape } from './judge-numbers.ts';
import { createTold } from './record.ts';
import { createService } from './service.ts';
import { CANARY, configOf, MINUTE, SECOND, type Settings } from './settings.ts';
import type { Life, Step } from './steps.ts';
import type { Tally } from './tally.ts';
import { settle, type Time } from './time.ts';
import { arrive, beginRun, createTruth, endOf, isListed, runAt, setSize, traffic } from './truth.ts';

export interface World {
  /** Lets one thing happen, and says what was wrong then. */
  happen(step: Step): Promise<void>;
  readonly wrong: readonly string[];
  /** What is kept must hold nothing secret; called once, at the end. */
  end(): Promise<void>;
}

/** Operators look for an answer less often than the command does: the agent acts less often, too. */
const OPERATORS_SLOWNESS = 40;
const LONGEST_CLOSE = 60 * SECOND;

export async function createWorld(life: Life, time: Time, stopFile: string, tally: Tally): Promise<World> {
  const random: Random = createRandom(life.seed);
  const truth = createTruth();
  const service = createService({ time, truth, shape: life.shape, random, clockOffset: () => machine.offset });
  const disk = createDisk(time);
  const record = createTold();
  const machine: Machine = { time, service, offset: 0, random: random.fraction };
  const lines: Line[] = [];
  const sent: Sent[] = [];
  const darkSteps: { at: number; by: number }[] = [];
  const approvals: { at: number; id: string }[] = [];
  const wrong: string[] = [];
  let settings: Settings = life.settings;
  let process: Process | undefined;
  let isStopped = false;
  let deathIn = Number.POSITIVE_INFINITY;
  let downFor = 0;
  let onDeath = () => {};
  let hidden = 0;
  let shown: { readonly scrape: Scrape; readonly process: Process } | undefined;
  const highest = new Map<string, number>();
  let firing = new Map<string, number>();
  let text = '';
  /** What was asked about last and not approved, and how soon operators will approve what is asked about next. */
  let asking: string | undefined;
  const patience: number[] = [];

  const found = (what: string) => void wrong.push(`at ${time.now / 1000} s: ${what}`);

  function die(): void {
    if (!process) return;
    process.isAlive = false;
    process = undefined;
    time.isOpen = false;
    deathIn = Number.POSITIVE_INFINITY;
    record.died(time.now);
    onDeath();
    time.after(downFor, () => void start());
  }

  const hooks: ProcessHooks = {
    step(of) {
      if (process === undefined) {
        process = of;
        time.isOpen = true;
      }
      if (of !== process) return;
      deathIn -= 1;
      if (deathIn <= 0) {
        tally.add(of.isRunning ? 'killed at work' : 'killed at the start');
        die();
      }
    },
    witness() {
      const actor: Actor | undefined = actors.getStore();
      const of = process as Process;
      return {
        ...record.witness(of, actor, () => time.now),
        answered(answer) {
          hidden += answer.hidden.length;
          if (answer.quality !== 'whole') tally.add(`${answer.quality} answers`);
          record.witness(of, actor, () => time.now).answered(answer);
        },
        sent(id) {
          const what = judgeCancel(id, of, {
            now: time.now,
            truth,
            shape: life.shape,
            record,
            lines,
            sent,
            isStopped,
            darkSteps,
            approvals,
          });
          for (const each of what) found(`DELETE ${id}: ${each}`);
          const intent = lines.findLast(({ entry }) => entry.step === 'intent' && entry.target.id === id)?.entry;
          sent.push({ id, action: intent?.action ?? '', at: time.now, status: undefined });
          tally.add('DELETE');
          if (intent?.step === 'intent') {
            tally.add(`DELETE by ${intent.rule} (${intent.mode}), attempt ${intent.attempt}`);
          }
        },
        cancelAnswered(id, status) {
          tally.add(`DELETE answered ${status ?? 'nothing'}`);
          if (status !== 401) record.accepted += 1;
          const last = sent.findLast(each => each.id === id);
          if (last) last.status = status;
        },
      };
    },
    store: of =>
      disk.storeFor(of, changes => {
        for (const line of linesOf(changes, of, time.now)) {
          lines.push(line);
          const { entry } = line;
          if (entry.step === 'awaiting_approval') asked(entry.target.id);
          tally.add(`journal ${entry.step}${entry.step === 'ended' ? ` ${entry.outcome}` : ''}`);
        }
      }),
    log(line) {
      if (line.includes(CANARY)) found(`a secret in a log line or span: ${line}`);
      if (line.startsWith('error bug') || line.includes('"reason":"bug"')) found(line);
    },
    roundBegins: actor => process && record.begin(process, actor, time.now),
    roundEnded(actor, success, reason) {
      record.end(actor, success, reason, time.now);
      tally.add(
        `round ${actor.collector} ${actor.round} ${success ? 'succeeded' : reason === undefined ? 'asked nothing' : `failed: ${reason}`}`,
      );
    },
    evaluated: of => judge(of),
  };

  /** What is held to be so now: after every step, and whenever alerts were evaluated. */
  function judge(of: Process): void {
    const now = new Set(of.firing());
    for (const name of now) if (!firing.has(name)) tally.add(`alert ${name} fires`);
    for (const name of firing.keys()) if (!now.has(name)) tally.add(`alert ${name} is resolved`);
    for (const what of judgeAlerts({ now: time.now, truth, shape: life.shape, record, process: of }, firing, now))
      found(what);
    firing = new Map([...now].map(name => [name, firing.get(name) ?? of.evaluatedAt]));
  }

  function scrape(): void {
    if (!process?.isRunning) return;
    const body = process.scrape();
    if (body.includes(CANARY)) found('a secret on /metrics');
    tally.add('scrapes');
    const isSame = shown?.process === process;
    const next = isSame && body === text && shown ? shown.scrape : readScrape(body);
    text = body;
    const lower = [
      ...fallen(highest, next.rising, false),
      ...(isSame && shown ? fallen(shown.scrape.rising, next.rising, true) : []),
    ];
    for (const what of new Set(lower)) found(what);
    for (const [series, value] of next.rising) if (outlasts(series)) highest.set(series, value);
    shown = { scrape: next, process };
    const checked = judgeNumbers({ now: time.now, truth, shape: life.shape, record, process }, next, hidden);
    tally.add('numbers compared', checked.count);
    for (const what of checked.wrong) found(what);
  }

  async function start(): Promise<void> {
    if (process) return;
    tally.add('starts');
    firing = new Map(
      [...disk.rows('production')].flatMap(([key, value]) => {
        if (!key.startsWith('alerts/state/')) return [];
        const { rule, state } = JSON.parse(value) as { rule: string; state: { phase: string } };
        return state.phase === 'firing' ? [[rule, firing.get(rule) ?? time.now] as const] : [];
      }),
    );
    try {
      await startProcess(configOf(settings, stopFile), machine, hooks);
    } catch (error) {
      // A store that takes nothing may keep it from starting; its supervisor starts it again.
      if (!String(error).includes('StoreError')) found(`it does not start: ${(error as Error).stack}`);
      tally.add('starts that failed');
      downFor = MINUTE;
      die();
    }
  }

  /** Ends the process as SIGTERM does, and kills it when that takes too long. */
  async function stop(down: number): Promise<void> {
    if (!process?.isRunning) return;
    const of = process;
    let isDone = false;
    const closing = of.close().then(
      () => {
        isDone = true;
      },
      (error: unknown) => {
        isDone = true;
        found(`it does not close: ${String(error)}`);
      },
    );
    void closing;
    for (let waited = 0; !isDone && waited < LONGEST_CLOSE && of.isAlive; waited += SECOND) await time.advance(SECOND);
    await settle();
    tally.add(isDone ? 'stopped' : 'killed as it did not stop');
    downFor = down;
    if (process === of) die();
  }

  function stepClock(by: number): void {
    if (by === 0) return;
    tally.add(`clock set ${process ? '' : 'in the dark '}${by > 0 ? 'forward' : 'back'}`);
    const last = process?.steps.at(-1);
    // Nobody can see what is taken back in the same moment.
    if (process && last?.at === time.now) process.steps.splice(-1, 1, { ...last, by: last.by + by });
    else if (process) process.steps.push({ at: time.now, by, wallBefore: process.clock.now() });
    else darkSteps.push({ at: time.now, by });
    machine.offset += by;
  }

  function tell(command: Order): void {
    tally.add(`command ${command.kind}`);
    const clock = {
      now: () => Date.UTC(2026, 2, 1) + time.now + machine.offset,
      monotonic: () => time.now,
      sleep: (ms: number) => new Promise<void>(resolve => void time.after(ms * OPERATORS_SLOWNESS, resolve)),
    };
    const asked = { store: disk.outside, accounts: ['production'], clock, waitMs: MINUTE };
    void giveOrder(command, asked).then(result => {
      tally.add(`command ${command.kind} ${['obeyed', 'waiting'].includes(result) ? result : 'refused'}`);
    });
  }

  function approve(id: string, soon: number): void {
    asking = undefined;
    time.after(soon, () => {
      approvals.push({ at: time.now, id });
      tell({ kind: 'approve', action: id, by: 'ann' });
    });
  }

  function asked(id: string): void {
    const soon = patience.shift();
    if (soon === undefined) asking = id;
    else approve(id, soon);
  }

  const entryOf = (index: number) => truth.entries[index % truth.entries.length];
  const by = { by: 'ann', reason: 'model' };

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
        // Only what has ended by itself can be run again.
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
      case 'kill':
        downFor = step.down;
        onDeath = () => {
          onDeath = () => {};
          if (step.settings) settings = step.settings;
          stepClock(step.clock * MINUTE);
        };
        deathIn = step.left + 1;
        return;
      case 'stop':
        await stop(step.down);
        if (process) return;
        if (step.settings) settings = step.settings;
        return stepClock(step.clock * MINUTE);
      case 'approve':
        // What is asked about now, or else what is asked about next.
        if (asking === undefined) patience.push(step.soon);
        else approve(asking, step.soon);
        return;
      case 'pause':
      case 'resume':
        return tell({ kind: step.kind, ...by });
      case 'reset':
        return tell({ kind: 'reset-breaker', breaker: step.breaker, ...by });
      case 'stop file':
        isStopped = step.isThere;
        if (isStopped) writeFileSync(stopFile, '');
        else rmSync(stopFile, { force: true });
        return;
    }
  }

  for (const arrival of life.begin) arrive(truth, arrival, time.now);
  setSize(truth, 'tenant-0', 3, time.now);
  await start();
  return {
    wrong,
    async happen(step) {
      const before = time.now;
      await change(step);
      await settle();
      // Where no time went by, nothing is other than it was.
      if (time.now === before) return;
      scrape();
      if (process?.isRunning) judge(process);
    },
    async end() {
      if (process) process.isAlive = false;
      time.isOpen = false;
      rmSync(stopFile, { force: true });
      for (const rows of [disk.rows('production'), disk.rows('')]) {
        for (const [key, value] of rows) if (value.includes(CANARY)) found(`a secret in the store: ${key}`);
      }
      for (const [fault, count] of service.met) tally.add(`fault ${fault}`, count);
      tally.add('commits', disk.counts.commits);
      tally.add('commits refused', disk.counts.refused);
    },
  };
}
