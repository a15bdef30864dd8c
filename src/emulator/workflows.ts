import { Agenda } from './agenda.ts';
import { CALLERS, type Workflow, workflows } from './destinations.ts';
import { FailureCallback } from './failure-callback.ts';
import type { FailedMessage } from './message.ts';
import { createRandom, messageId, type Random } from './random.ts';
import { type Position, RowTimeline } from './timeline.ts';
import { retryDelay } from './workload.ts';

export interface WorkflowParts {
  readonly start: number;
  readonly seed: number;
  readonly everyMs: number;
  readonly stuck: (now: number) => number;
  readonly attended: boolean;
  /** Whether operators clear dead letters within hours and callbacks rarely fail. */
  readonly isTidy: boolean;
  readonly retentionMs: number;
}

/** First row number. It is so high that ids differ from those of other dead letters. */
const FIRST_SEQ = 1_000_000_000;

const VISIT_AFTER_MS = 10 * 3_600_000;
const TIDY_AFTER_MS = 2 * 3_600_000;

interface Course {
  readonly random: Random;
  readonly workflow: Workflow;
  /** Attempt that gets stuck, from 0; earlier ones fail. Undefined if none gets stuck. */
  readonly stuckAt: number | undefined;
}

/** Failed workflow runs and their failure callbacks, with separate random draws. */
export class Workflows {
  readonly entries = new RowTimeline<FailedMessage>(FIRST_SEQ);
  readonly #agenda: Agenda;
  readonly #parts: WorkflowParts;
  readonly #random: Random;
  readonly #courses = new WeakMap<FailureCallback, Course>();
  #failed = 0;
  #issuedIds = 0;

  constructor(parts: WorkflowParts) {
    this.#parts = parts;
    this.#agenda = new Agenda(parts.start);
    this.#random = createRandom(parts.seed + 2);
    this.#planFailure();
  }

  advanceTo(now: number): void {
    const expiry = now - this.#parts.retentionMs;
    if (this.#agenda.now < expiry) {
      this.#agenda.restart(expiry);
      this.#planFailure();
    }
    this.#agenda.runUntil(now);
    this.entries.dropEarliest(expiry, Number.POSITIVE_INFINITY);
  }

  /** Cancels a callback. Returns false if it is not in progress. */
  cancel(callback: FailureCallback | undefined): boolean {
    if (!callback?.inProgress) return false;
    callback.become('CALLBACK_CANCELED');
    return true;
  }

  retry(callback: FailureCallback | undefined): boolean {
    if (callback?.state !== 'CALLBACK_FAIL') return false;
    callback.become('CALLBACK_INPROGRESS');
    callback.messageId = this.nextMessageId();
    callback.retried = 0;
    this.#attempt(callback);
    return true;
  }

  nextMessageId(): string {
    return messageId(this.#parts.seed, 'c', FIRST_SEQ + this.#issuedIds++);
  }

  #planFailure(): void {
    this.#agenda.at(this.#agenda.now + this.#random.exponential(this.#parts.everyMs), () => {
      this.#fail();
      this.#planFailure();
    });
  }

  #fail(): void {
    const { seed, stuck, attended } = this.#parts;
    const now = this.#agenda.now;
    const number = this.#failed++;
    // Separate draws: changes to this run do not affect later ones.
    const random = createRandom(seed + 1_000_003 * (number + 1));
    const workflow = random.pick(workflows);
    const { fields, callback: sends } = workflow;
    const workflowCreatedAt = now - random.between(10_000, 3_000_000);
    const id = messageId(seed, 'f', number);
    const callback = sends && new FailureCallback({ ...sends, messageId: messageId(seed, 'c', number) });
    const message = {
      fields: callback ? { ...fields, failureCallback: callback.url } : fields,
      messageId: id,
      createdAt: workflowCreatedAt + random.between(0, 5000),
      notBefore: workflowCreatedAt,
      callerIP: random.pick(CALLERS),
    };
    const run = { workflowRunId: `wfr_${id.slice(4)}`, workflowUrl: fields.url, workflowCreatedAt, callback };
    const position = this.entries.add(now, { message, responseStatus: random.pick(workflow.statuses), run });
    if (callback) {
      const isStuck = random.chance(stuck(now));
      this.#courses.set(callback, { random, workflow, stuckAt: isStuck ? random.between(0, 1) : undefined });
      this.#attempt(callback);
    }
    if (attended) this.#planVisit(position, random);
  }

  #attempt(callback: FailureCallback): void {
    const course = this.#courses.get(callback);
    if (!course || course.stuckAt === callback.retried) return;
    const { random, workflow } = course;
    callback.nextDeliveryTime = undefined;
    const respondsAt = this.#agenda.now + random.exponential(workflow.callbackTakesMs);
    this.#whileInProgress(callback, respondsAt, () => this.#handleResponse(callback, course));
  }

  #handleResponse(callback: FailureCallback, { random, workflow, stuckAt }: Course): void {
    if (
      stuckAt === undefined &&
      !random.chance(this.#parts.isTidy ? workflow.callbackFails / 3 : workflow.callbackFails)
    ) {
      callback.responseStatus = 200;
      callback.become('CALLBACK_SUCCESS');
      return;
    }
    callback.responseStatus = random.pick(workflow.statuses);
    if (callback.retried >= callback.maxRetries) {
      callback.become('CALLBACK_FAIL');
      return;
    }
    callback.retried++;
    callback.nextDeliveryTime = this.#agenda.now + retryDelay(callback.retried);
    this.#whileInProgress(callback, callback.nextDeliveryTime, () => this.#attempt(callback));
  }

  /** Runs `then` at `due`, unless the callback has ended or been resent. */
  #whileInProgress(callback: FailureCallback, due: number, then: () => void): void {
    const { messageId } = callback;
    this.#agenda.at(due, () => {
      if (callback.inProgress && callback.messageId === messageId) then();
    });
  }

  #planVisit(position: Position, random: Random): void {
    this.#agenda.at(this.#agenda.now + random.exponential(this.#parts.isTidy ? TIDY_AFTER_MS : VISIT_AFTER_MS), () => {
      const entry = this.entries.get(position);
      if (!entry) return;
      if (entry.run?.callback?.inProgress) this.#planVisit(position, random);
      else this.entries.remove(position);
    });
  }
}
