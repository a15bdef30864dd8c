/**
 * Responses that processes have received, by round. Oracles use only these responses as evidence. Times are in milliseconds
 * since the world's start.
 */
import type { Actor, Process, RoundActor } from './agent.ts';
import type { Question } from './lists.ts';
import type { Entry, LoggedEvent } from './truth.ts';
import type { Answered, ShownEntry, Witness } from './witness.ts';

/** A part of a round: the queue, a filter, workflow runs or the log. */
export interface Part {
  /** Whether the request covers the complete list: the round is full, or the request has no start time. */
  readonly isWhole: boolean;
  isBroken: boolean;
  isPartial: boolean;
  /** Whether the last page was read. */
  hasEnd: boolean;
  readonly hidden: Set<Entry>;
  /** Failed requests without a successful retry. */
  readonly unanswered: Set<string>;
}

export interface Round extends RoundActor {
  readonly process: Process;
  readonly begunAt: number;
  /** Start by the process's own clock (ms since the Unix epoch). */
  readonly wallAt: number;
  endedAt: number | undefined;
  success: boolean;
  reason: string | undefined;
  /** Whether the round was read completely and is therefore exposed, even if its commit failed. */
  readonly isObserved: boolean;
  /** Whether the round was read completely but is not yet committed. */
  readonly isCommitting?: boolean;
  readonly parts: Map<string, Part>;
  /** All listed rows of the queue and of workflow runs. */
  readonly shown: Map<Entry, ShownEntry[]>;
  readonly events: Set<LoggedEvent>;
  /** Responses to requests for unpaginated lists. */
  readonly answers: Answered[];
}

/** A query by auto-cancel about one message, with the contents of all its pages. */
export interface MessageQuery {
  readonly question: Question;
  readonly messageId: string;
  readonly process: Process;
  readonly at: number;
  readonly wallAt: number;
  isComplete: boolean;
  /** Whether the last response was a failure, so that the request may be retried. */
  hasFailed: boolean;
  isWhole: boolean;
  readonly entries: ShownEntry[];
  readonly events: LoggedEvent[];
}

export interface RoundRecord {
  /** Ended rounds of all processes in order, and rounds with a pending commit. */
  readonly ended: readonly Round[];
  /** Rounds that are still being read or committed. */
  readonly inFlight: readonly Round[];
  readonly asked: readonly MessageQuery[];
  begin(process: Process, actor: RoundActor, now: number): void;
  end(actor: RoundActor, success: boolean, reason: string | undefined, now: number): Round | undefined;
  witness(process: Process, actor: Actor | undefined, now: () => number): Pick<Witness, 'asked' | 'answered'>;
  /**
   * Called when the process has died or closed the account. Walks that it read completely may have been committed even though
   * no response arrived.
   */
  forget(process: Process, now: number): void;
}

const ROUNDS_KEPT = 400;

export const isClean = ({ isBroken, isPartial, unanswered }: Part) => !isBroken && !isPartial && unanswered.size === 0;
export const isReadable = ({ isBroken, unanswered }: Part) => !isBroken && unanswered.size === 0;

function partName(question: Question, query: URLSearchParams): string {
  if (question !== 'dlq') return question;
  return query.get('responseStatus') === null ? 'all' : 'errors';
}

export function createRoundRecord(): RoundRecord {
  const ended: Round[] = [];
  let asked: MessageQuery[] = [];
  /** Current round of each actor. */
  const current = new Map<RoundActor, Round>();

  function partOf(round: Round, question: Question, query: URLSearchParams): Part {
    const name = partName(question, query);
    const known = round.parts.get(name);
    if (known) return known;
    const isWhole = round.round === 'full' || query.get('fromDate') === null;
    const part: Part = {
      isWhole,
      isBroken: false,
      isPartial: false,
      hasEnd: false,
      hidden: new Set(),
      unanswered: new Set(),
    };
    round.parts.set(name, part);
    return part;
  }

  function roundAnswered(round: Round, answer: Answered): void {
    const { question, query, quality, entries, hidden, events } = answer;
    const part = partOf(round, question, query);
    const key = query.toString().replace(/count=\d+/, '');
    if (quality === 'failed') part.unanswered.add(key);
    else part.unanswered.delete(key);
    part.isBroken ||= quality === 'broken';
    part.isPartial ||= quality === 'partial';
    part.hasEnd ||= answer.isLast;
    for (const entry of hidden) part.hidden.add(entry);
    for (const one of entries) round.shown.set(one.entry, [...(round.shown.get(one.entry) ?? []), one]);
    for (const event of events) round.events.add(event);
    if (question === 'flow' || question === 'key') round.answers.push(answer);
  }

  return {
    get ended() {
      const committing = [...current.values()].filter(
        ({ process, collector, round, wallAt }) => process.observedAt(collector, round) === wallAt,
      );
      return committing.length === 0
        ? ended
        : [...ended, ...committing.map(round => ({ ...round, isObserved: true, isCommitting: true }))];
    },
    get inFlight() {
      return [...current.values()];
    },
    get asked() {
      return asked;
    },
    begin(process, actor, now) {
      current.set(actor, {
        ...actor,
        process,
        begunAt: now,
        wallAt: process.clock.now(),
        endedAt: undefined,
        success: false,
        reason: undefined,
        isObserved: false,
        parts: new Map(),
        shown: new Map(),
        events: new Set(),
        answers: [],
      });
    },
    end(actor, success, reason, now) {
      const round = current.get(actor);
      current.delete(actor);
      if (!round) return undefined;
      const isObserved = round.process.observedAt(actor.collector, actor.round) === round.wallAt;
      Object.assign(round, { success, reason, endedAt: now, isObserved });
      ended.push(round);
      if (ended.length > ROUNDS_KEPT) ended.shift();
      return round;
    },
    witness(process, actor, now) {
      return {
        asked: (question, query) => {
          if (actor !== 'acting') {
            const round = actor && current.get(actor);
            // A look-up by a walk only tests how the service interprets `fromDate`, and is not part of the walk.
            if (round && question !== 'look') partOf(round, question, query);
            return;
          }
          const last = asked.findLast(each => each.process === process);
          const run = /^wfr_(.*)@/.exec(query.get('workflowRuns') ?? '')?.[1];
          // An unfiltered request for runs belongs to the attempt that it follows.
          const messageId = query.get('messageId') ?? run ?? (question === 'runs' ? last?.messageId : undefined) ?? '';
          // Whether the request fetches the next page or is a retry.
          const isNext = query.get('cursor') !== null || last?.hasFailed;
          const isSame =
            isNext &&
            last !== undefined &&
            last.question === question &&
            last.messageId === messageId &&
            !last.isComplete;
          if (isSame) return;
          asked.push({
            question,
            messageId,
            process,
            at: now(),
            wallAt: process.clock.now(),
            isComplete: false,
            hasFailed: false,
            isWhole: true,
            entries: [],
            events: [],
          });
        },
        answered: answer => {
          if (answer.status !== undefined && answer.status !== 401) process.accepted += 1;
          if (actor !== 'acting') {
            const round = actor && current.get(actor);
            if (round && answer.question !== 'look') roundAnswered(round, answer);
            return;
          }
          const one = asked.findLast(each => each.process === process);
          if (!one) return;
          if (answer.quality === 'broken' || answer.quality === 'partial') one.isWhole = false;
          one.hasFailed = answer.quality === 'failed';
          if (one.hasFailed) return;
          one.entries.push(...answer.entries);
          one.events.push(...answer.events);
          one.isComplete ||= answer.isLast;
        },
      };
    },
    forget(process, now) {
      for (const [actor, round] of current) {
        if (round.process !== process) continue;
        const { parts } = round;
        // If the lists contain callback states, workflow runs need not be read to the end.
        const isRead =
          ['all', 'errors'].every(name => parts.get(name)?.hasEnd) && [...parts.values()].every(isReadable);
        if (round.round === 'full' && isRead) ended.push({ ...round, reason: 'killed', endedAt: now });
        current.delete(actor);
      }
      asked = asked.filter(each => each.process !== process);
    },
  };
}
