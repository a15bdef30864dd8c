/** What a process was told by the service, round by round: the only thing that an oracle may hold it to. Times: milliseconds since the world began. */
import type { Actor, Process, RoundActor } from './agent.ts';
import type { Question } from './lists.ts';
import type { Entry, LoggedEvent } from './truth.ts';
import type { Answered, ShownEntry, Witness } from './witness.ts';

/** A part of a round: the queue, one filter, workflow runs, the log. */
export interface Part {
  /** It began without a time from which on: all of it is asked for. */
  readonly isWhole: boolean;
  isBroken: boolean;
  isPartial: boolean;
  /** An end of it was read. */
  hasEnd: boolean;
  readonly hidden: Set<Entry>;
  /** Asked, failed, and not answered since. */
  readonly unanswered: Set<string>;
}

export interface Round extends RoundActor {
  readonly process: Process;
  readonly begunAt: number;
  /** By the process's own clock, milliseconds since the Unix epoch. */
  readonly wallAt: number;
  endedAt: number | undefined;
  success: boolean;
  reason: string | undefined;
  /** All of it is read, and shown whether the store takes it or not. */
  readonly isObserved: boolean;
  /** Observed, and not yet ended: the store has not taken it. */
  readonly isCommitting?: boolean;
  readonly parts: Map<string, Part>;
  /** Every row of the queue and of workflow runs that was shown. */
  readonly shown: Map<Entry, ShownEntry[]>;
  readonly events: Set<LoggedEvent>;
  /** Answers to lists that are one page. */
  readonly answers: Answered[];
}

/** One question that acting asked about one message, with all pages of its answer. */
export interface Asked {
  readonly question: Question;
  readonly messageId: string;
  readonly process: Process;
  readonly at: number;
  readonly wallAt: number;
  isComplete: boolean;
  /** The last answer was a failure, after which the same is asked again. */
  hasFailed: boolean;
  isWhole: boolean;
  readonly entries: ShownEntry[];
  readonly events: LoggedEvent[];
}

export interface Told {
  /** Rounds of all processes that have ended, in the order in which they did, and those that have all but their commit behind them. */
  readonly ended: readonly Round[];
  /** Rounds that still read, or commit. */
  readonly underWay: readonly Round[];
  readonly asked: readonly Asked[];
  begin(process: Process, actor: RoundActor, now: number): void;
  end(actor: RoundActor, success: boolean, reason: string | undefined, now: number): Round | undefined;
  witness(process: Process, actor: Actor | undefined, now: () => number): Pick<Witness, 'asked' | 'answered'>;
  /** The process has died or closed the account. Rounds that were read to their end may be committed without a report. */
  forget(process: Process, now: number): void;
}

const ROUNDS_KEPT = 400;

export const isClean = ({ isBroken, isPartial, unanswered }: Part) => !isBroken && !isPartial && unanswered.size === 0;
export const isReadable = ({ isBroken, unanswered }: Part) => !isBroken && unanswered.size === 0;

function partName(question: Question, query: URLSearchParams): string {
  if (question !== 'dlq') return question;
  return query.get('responseStatus') === null ? 'all' : 'errors';
}

export function createTold(): Told {
  const ended: Round[] = [];
  let asked: Asked[] = [];
  /** Under way, by the actor. */
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
    get underWay() {
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
            // What `fromDate` means is asked beside the walk, which goes on without an answer.
            if (round && question !== 'look') partOf(round, question, query);
            return;
          }
          const messageId = query.get('messageId') ?? '';
          const last = asked.findLast(each => each.process === process);
          // Another page, or once more what failed.
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
        // Workflow runs need not be read to their end where the lists tell the states.
        const isRead =
          ['all', 'errors'].every(name => parts.get(name)?.hasEnd) && [...parts.values()].every(isReadable);
        if (round.round === 'full' && isRead) ended.push({ ...round, reason: 'killed', endedAt: now });
        current.delete(actor);
      }
      asked = asked.filter(each => each.process !== process);
    },
  };
}
