/**
 * Checks whether a DELETE is allowed, based on the service's state and responses and on committed journal lines. Shares
 * no code with the agent.
 */
import type { JournalEntry } from '../../src/model/journal.ts';
import type { Process } from './agent.ts';
import type { SentDelete } from './check-operators.ts';
import { type Line, ofAction, openActions, openBreakers } from './journal-lines.ts';
import { isClean, isReadable, type MessageQuery, type Round, type RoundRecord } from './record.ts';
import { HOUR, MAX_HEALTHY, MINUTE, SECOND, START } from './settings.ts';
import { type Entry, runAt, type Shape, type Truth } from './truth.ts';

export interface Sent extends SentDelete {
  readonly id: string;
  readonly at: number;
  /** Status that the sending process received; undefined if it received none. */
  status: number | undefined;
}

export interface CancelWorld {
  readonly now: number;
  readonly truth: Truth;
  readonly shape: Shape;
  readonly record: RoundRecord;
  readonly lines: readonly Line[];
  readonly sent: readonly Sent[];
  readonly isStopped: boolean;
  /** Clock changes while no process was running, which the agent cannot detect. */
  readonly darkSteps: readonly { readonly at: number; readonly by: number }[];
}

type Rule = Process['config']['autoCancel']['rules'][number];
type Intent = Extract<JournalEntry, { step: 'intent' }>;

const MODES = ['plan', 'approve', 'enforce'];
/** Responses that prove that a DELETE had no effect, so that it may be repeated. */
const WITHOUT_EFFECT: ReadonlySet<number | undefined> = new Set([401, 403, 429]);
/** Minimum size of a clock change that counts as a step (ms). */
const STEP = 30 * SECOND;

/** Returns the maximum duration of all attempts of a callback according to the service's documentation (ms). */
function retryWindow(retries: number, timeout: number): number {
  let waits = 0;
  for (let n = 1; n <= retries; n += 1) waits += Math.min(24 * HOUR, Math.exp(2.5 * n) * SECOND);
  return waits + (retries + 1) * timeout;
}

const sum = (numbers: readonly number[]) => numbers.reduce((a, b) => a + b, 0);

/** Returns the effective mode of a rule. `wall`: the latest time that the agent's clock has shown. */
function effectiveMode(rule: Rule, { config: { autoCancel } }: Process, wall: number): string {
  return autoCancel.mode !== 'enforce' || (rule.expires !== null && wall >= rule.expires) ? 'plan' : rule.mode;
}

/**
 * Returns how a walk lists the callback, and whether it matches the rule. Returns undefined if the walk does not list it.
 */
function sightingIn({ shown }: Round, entry: Entry, wanted: string | undefined, { reportsMessage, field }: Shape) {
  const rows = shown.get(entry);
  if (!rows) return undefined;
  const states = new Set(rows.flatMap(({ state }) => state ?? []));
  const isMeant = wanted === undefined ? states.size === 0 : states.size === 1 && states.has(wanted);
  const runs = new Set(rows.map(({ run }) => run));
  const isReported = reportsMessage && field === 'failureCallbackInfo' && wanted !== undefined;
  return {
    isMeant: isMeant && (!isReported || runs.size === 1),
    hasState: states.size > 0,
    run: isReported ? rows[0]?.run : undefined,
  };
}

/** Whether the lists that contain callbacks were read. Filters may fail: the complete queue and workflow runs contain all callbacks. */
const isRead = ({ parts }: Round) => [...parts].every(([name, part]) => name === 'errors' || isReadable(part));

/** Kinds of walks that a chain may skip if they do not contradict it. */
interface Skips {
  /** Walks of a dead process without a known commit. The store may or may not contain them. */
  readonly lost: boolean;
  /** Walks with unreadable rows. The agent need not record when such walks took place. */
  readonly partial: boolean;
}

/** Returns the walks that are evidence for a cancel: the possible chain with the earliest start. */
function evidenceOf(world: CancelWorld, entry: Entry, rule: Rule, wanted: string | undefined): Round[] {
  const chains = [true, false].flatMap(lost =>
    [true, false].map(partial => chainOf(world, entry, rule, wanted, { lost, partial })),
  );
  const beginOf = (chain: Round[]) => chain.at(-1)?.wallAt ?? Number.POSITIVE_INFINITY;
  return chains.toSorted((one, other) => beginOf(one) - beginOf(other))[0] ?? [];
}

/** Returns consecutive complete walks in which the callback matched the rule, newest first. */
function chainOf(world: CancelWorld, entry: Entry, rule: Rule, wanted: string | undefined, skips: Skips): Round[] {
  // Walks count even if their commit failed.
  const walks = world.record.ended.filter(
    ({ round, success, reason, isCommitting }) =>
      round === 'full' && (success || isCommitting || reason === 'store' || reason === 'killed'),
  );
  const chain: Round[] = [];
  const maxGap = rule.stuckWhen.maxGap ?? Number.NaN;
  let run: unknown;
  for (const walk of walks.toReversed()) {
    const parts = [...walk.parts.values()];
    // A walk that did not read all lists proves nothing.
    if (!isRead(walk)) continue;
    const seen = sightingIn(walk, entry, wanted, world.shape);
    const isHidden = parts.some(({ hidden }) => hidden.has(entry));
    const isCutOff = !walk.success && !walk.isCommitting;
    // Some services list callback states only with workflow runs.
    const lacksState = walk.parts.get('workflows')?.hasEnd === false && !seen?.hasState;
    const next = chain.at(-1);
    // An uncommitted walk is lost when its process ends, so it does not contradict stored evidence.
    if (skips.lost && next && next.process !== walk.process && !walk.success && !walk.isCommitting) continue;
    // An incomplete walk does not change the evidence.
    if ((isCutOff || lacksState) && !seen?.isMeant) continue;
    if (isHidden && !seen?.isMeant) continue;
    if (!seen?.isMeant || (next && seen.run !== run)) break;
    if (skips.partial && !parts.every(isClean)) continue;
    run = seen.run;
    if (next) {
      const gap = next.wallAt - walk.wallAt;
      const isLost = next.process !== walk.process && !walk.success && !walk.isCommitting;
      if ((gap < 0 || gap > maxGap) && isLost) continue;
      const steps = next.process === walk.process ? walk.process.steps : next.process.steps;
      const set = sum(
        steps.filter(({ at }) => at > (walk.endedAt ?? 0) && at <= (next.endedAt ?? world.now)).map(({ by }) => by),
      );
      if (gap < 0 || gap > maxGap || (next.process === walk.process && Math.abs(set) > STEP)) break;
    }
    chain.push(walk);
  }
  return chain;
}

/** Returns the latest consecutive requests of this process about these messages. */
function attemptOf({ record: { asked } }: CancelWorld, process: Process, messages: readonly string[]): MessageQuery[] {
  const own = asked.filter(each => each.process === process);
  return own.slice(own.findLastIndex(each => !messages.includes(each.messageId)) + 1);
}

/** Returns the reasons why the DELETE of the dead letter `id` must not be sent now. */
export function checkCancel(id: string, process: Process, world: CancelWorld): string[] {
  const { now, truth, shape, record, lines, sent } = world;
  const wrong: string[] = [];
  const fault = (isFault: boolean, what: string) => void (isFault && wrong.push(what));
  const open = openActions(lines);
  const mine = [...open].filter(([, target]) => target.id === id);
  const [action = ''] =
    mine.find(
      ([action, { attempt }]) =>
        !ofAction(lines, action).some(({ entry }) => entry.step === 'answered' && entry.attempt === attempt),
    ) ?? [];
  const line = ofAction(lines, action).findLast(({ entry }) => entry.step === 'intent');
  if (!line) return ['no committed intent'];
  const intent = line.entry as Intent;
  const entry = truth.entries.find(({ dlqId }) => dlqId === id);
  if (!entry) return ['there never was such an entry'];
  const wall = process.clock.now();
  const latest = Math.max(
    wall,
    ...lines.map(({ entry: { at } }) => at),
    ...process.steps.map(({ wallBefore }) => wallBefore),
  );
  const { autoCancel } = process.config;
  const matching = autoCancel.rules.filter(() => entry.label === 'job');
  const modes = matching.map(rule => ({ rule, mode: effectiveMode(rule, process, latest) }));
  const [owner] = modes.toSorted((a, b) => MODES.indexOf(a.mode) - MODES.indexOf(b.mode));
  if (!owner || owner.mode === 'plan') return ['no rule may act'];
  const { rule, mode } = owner;
  fault(
    rule.name !== intent.rule || mode !== intent.mode,
    `it is by ${intent.rule} (${intent.mode}) instead of ${rule.name} (${mode})`,
  );
  fault(line.process !== process, 'the intent is of another process');
  fault(wall - intent.at > 30 * SECOND, 'the intent is too old');
  fault(
    rule.windows.deny.some(({ from, to }) => wall >= from && wall < to),
    'the window is closed',
  );
  fault(world.isStopped, 'the stop file exists');
  fault(openBreakers(lines).size > 0, `breakers are open: ${[...openBreakers(lines)]}`);
  fault(
    autoCancel.pauseWhileAlerts.some(name => process.firing().includes(name)),
    'an alert that pauses it fires',
  );

  // Check the evidence: a chain of complete walks whose newest walk is fresh.
  const wanted = rule.evidence === 'blind' ? undefined : 'INPROGRESS';
  const own = record.ended.filter(
    each => each.process === process && each.collector === 'dlq' && each.round === 'full',
  );
  const newest = own.at(-1);
  if (!newest) return [...wrong, 'no walk of this process has ended'];
  const every = 4 * MINUTE;
  const took = (newest.endedAt ?? now) - newest.begunAt;
  fault(!newest.success && !newest.isCommitting, 'the newest walk failed');
  fault(![...newest.parts.values()].every(isClean), 'the newest walk is incomplete');
  fault(now - (newest.endedAt ?? now) > 2 * Math.max(every, took), 'the newest walk is no longer fresh');
  const lastStep = process.steps.findLast(({ by }) => Math.abs(by) > STEP)?.at ?? 0;
  // A walk that was read completely counts even if its commit failed.
  const isComplete = ({ success, isCommitting, reason, parts }: Round) =>
    success || isCommitting || (reason === 'store' && parts.get('all')?.hasEnd && parts.get('errors')?.hasEnd);
  const usable = own.filter(walk => isComplete(walk) && (walk.endedAt ?? now) >= lastStep && isRead(walk));
  fault(usable.length < 3, `only ${usable.length} walks since the start or since the clock was set`);
  const chain = evidenceOf(world, entry, rule, wanted);
  fault(chain[0]?.begunAt !== newest.begunAt, 'the callback did not match in the newest walk');
  const first = chain.at(-1) ?? newest;
  const seenFor = newest.wallAt - first.wallAt;
  const { stuckWhen } = rule;
  const asked = stuckWhen.inProgressFor ?? stuckWhen.seenFor ?? Number.POSITIVE_INFINITY;
  fault(seenFor < asked, `it matched for only ${seenFor} ms`);
  const retries = Math.max(entry.maxRetries, stuckWhen.assumeMaxRetries);
  fault(
    seenFor <= stuckWhen.pastRetryWindow * retryWindow(retries, stuckWhen.assumeTimeout),
    `seen for ${seenFor} ms, within the retry window`,
  );
  fault(chain.length < (stuckWhen.snapshots ?? 1), 'it matched in too few walks');

  // Check that the callback was looked up before the cancel.
  const run = runAt(entry, first.begunAt);
  const current = runAt(entry, now);
  const messages = [entry.messageId, ...(run ? [run.messageId] : []), ...(current ? [current.messageId] : [])];
  const attempt = attemptOf(world, process, messages);
  const looks = attempt.filter(({ question }) => question === 'look' || question === 'workflows');
  const rows = looks
    .filter(({ isWhole }) => isWhole)
    .flatMap(({ entries }) => entries.filter(each => each.entry === entry));
  const last = rows.findLast(({ state }) => wanted === undefined || state !== undefined);
  fault(
    looks.some(({ isWhole, isComplete }) => !isWhole || !isComplete) && last === undefined,
    'the last look-up failed',
  );
  fault(last?.state !== wanted || last === undefined, `the last look-up returned ${last?.state}`);
  if (stuckWhen.idleFor !== undefined) {
    const known =
      shape.reportsMessage && shape.field === 'failureCallbackInfo' && current
        ? [entry.messageId, current.messageId]
        : [entry.messageId];
    const times: number[] = [];
    let askedAt = Number.POSITIVE_INFINITY;
    for (const message of known) {
      const question = attempt.findLast(each => each.question === 'lookup' && each.messageId === message);
      fault(!question, 'its newest event was not requested within the attempt');
      if (!question) continue;
      fault(!question.isComplete || !question.isWhole, 'its events could not be read');
      askedAt = Math.min(askedAt, question.wallAt);
      times.push(...question.events.map(({ time }) => START + time));
    }
    const silent = askedAt - Math.max(...times);
    fault(silent < stuckWhen.idleFor, `it was idle for only ${silent} ms at the request`);
  }

  // Check that the next delivery of the callback was looked up, and that it is past.
  const next = attempt.findLast(({ question }) => question === 'runs');
  fault(!next || next.hasFailed || !next.isWhole, 'its next delivery could not be read');
  const ownRuns = (next?.entries ?? []).filter(each => each.entry === entry);
  fault(shape.hasRuns && ownRuns.length === 0, 'its run was not listed');
  fault(
    ownRuns.some(({ run }) => (run?.nextAt ?? 0) > now),
    'its next delivery is still to come',
  );

  // Check that the action was approved and that its grace period is over.
  const policy = JSON.stringify(autoCancel);
  const history = ofAction(lines, action);
  const since = history.findLastIndex(({ entry: { step } }) => step === 'cleared' || step === 'ended');
  const present = history.slice(since + 1);
  if (mode === 'approve') {
    const asking = present.findLast(({ entry: each }) => each.step === 'awaiting_approval' && each.rule === rule.name);
    const approved = present.findLast(({ entry: each }) => each.step === 'approved');
    const isGiven = approved !== undefined && asking !== undefined && approved.committedAt >= asking.committedAt;
    fault(!isGiven, 'it was not approved for this rule');
    fault(isGiven && (asking.policy !== policy || approved.policy !== policy), 'it was approved under another policy');
  }
  if (rule.grace > 0) {
    const marked = present.findLast(({ entry: each }) => each.step === 'marked' && each.rule === rule.name);
    const until = marked?.entry.step === 'marked' ? marked.entry.until : Number.POSITIVE_INFINITY;
    fault(!marked || marked.policy !== policy, 'its grace period has not started for this rule');
    fault(marked !== undefined && marked.policy === policy && newest.wallAt < until, 'its grace period is not over');
  }

  // Check that the callback is not cancelled twice.
  const counted = sent.filter(each => each.action === action && !WITHOUT_EFFECT.has(each.status));
  fault(counted.length >= (rule.evidence === 'blind' ? 1 : 2), `it was sent ${counted.length} times in this episode`);
  fault(
    counted.some(({ at }) => at >= newest.begunAt),
    'no walk has started since the last DELETE',
  );
  fault(mine.length > 1, 'another episode of it is unresolved');
  if (rule.evidence === 'blind') {
    const before = sent.filter(each => each.id === id && !WITHOUT_EFFECT.has(each.status) && each.status !== 400);
    fault(before.length > 0, 'the rule is blind and it was sent before');
  }

  // Check the limits against the elapsed time, excluding clock changes while the process was running.
  const intents = lines.filter(({ entry: each }) => each.step === 'intent' && each !== intent);
  const ago = (other: Line) => {
    const forward = process.steps.filter(({ at, by }) => by > 0 && at > other.committedAt && other.process === process);
    return intent.at - other.entry.at - sum(forward.map(({ by }) => by));
  };
  const within = (ms: number, only: (each: Intent) => boolean = () => true) =>
    intents.filter(other => ago(other) < ms && only(other.entry as Intent)).length;
  const ofRule = (each: Intent) => each.rule === rule.name;
  const { limits } = autoCancel;
  fault(within(HOUR) >= limits.perHour, 'more than the hourly limit');
  fault(within(24 * HOUR) >= limits.perDay, 'more than the daily limit');
  fault(within(HOUR, ofRule) >= rule.limits.perHour, "more than the rule's hourly limit");
  fault(within(limits.spacing) > 0, 'too soon after another');
  fault(
    within(
      rule.cooldown.perUrl,
      each => (each.target.workflowUrl ?? each.target.url) === (intent.target.workflowUrl ?? intent.target.url),
    ) > 0,
    'its address cools down',
  );
  const inRun = intents.filter(({ committedAt }) => committedAt >= (newest.endedAt ?? now));
  fault(inRun.length >= limits.perRun, 'more than the limit per run');
  const inRunOfRule = inRun.filter(({ entry: each }) => ofRule(each as Intent));
  fault(inRunOfRule.length >= rule.limits.perRun, "more than the rule's limit per run");
  const errors = lines
    .slice(lines.findLastIndex(({ entry: each }) => each.step === 'breaker_reset' && each.breaker === 'errors') + 1)
    .filter(
      other =>
        other.entry.step === 'answered' &&
        ['unknown', 'denied'].includes(other.entry.answer.kind) &&
        ago(other) < autoCancel.breaker.errors.within,
    );
  fault(errors.length >= autoCancel.breaker.errors.max, 'too many cancels failed');

  // Check the true state of the callback.
  const dark = world.darkSteps.some(({ at, by }) => by > 0 && at >= first.begunAt);
  const isKnown = (shape.reportsMessage && shape.field === 'failureCallbackInfo') || entry.runs.length === 1;
  const isHealthy = current?.to !== undefined && current.to - current.from <= MAX_HEALTHY;
  fault(wanted !== undefined && isHealthy && isKnown && !dark, 'the callback is healthy');
  return wrong;
}
