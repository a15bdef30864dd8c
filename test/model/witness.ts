/** Types for observing a process's requests and their responses. */
import type { Question } from './lists.ts';
import type { Entry, LoggedEvent, Run } from './truth.ts';

/** A listed row of the queue. */
export interface ShownEntry {
  readonly entry: Entry;
  /** State of the failure callback; undefined if the list contains no states. */
  readonly state: string | undefined;
  readonly run: Run | undefined;
}

/** Quality of a response. `partial`: some rows are unreadable. `broken`: it is not a list. `failed`: the request may be retried. */
export type Quality = 'whole' | 'partial' | 'broken' | 'failed';

export interface Answered {
  readonly question: Question;
  readonly query: URLSearchParams;
  /** Time of the request (ms since the world's start). */
  readonly askedAt: number;
  /** Time at which the returned data was correct (ms since the world's start). */
  readonly trueAt: number;
  readonly quality: Quality;
  readonly status: number | undefined;
  readonly isLast: boolean;
  readonly entries: readonly ShownEntry[];
  readonly hidden: readonly Entry[];
  readonly events: readonly LoggedEvent[];
  readonly key: string | undefined;
}

/** Observer of a process's requests. */
export interface Witness {
  asked(question: Question, query: URLSearchParams): void;
  answered(answer: Answered): void;
  /** Called when a request needs a connection. Returns how long connecting takes (ms). */
  connecting(what: Question | 'cancel'): number;
  /** Called when a DELETE is sent. */
  sent(id: string): void;
  /** Called before the process receives the response to a DELETE. `status` is undefined if the response is lost. */
  cancelAnswered(id: string, status: number | undefined): void;
}

/** A process that sends requests. A dead process receives no response. A stopped process receives it after SIGCONT. */
export interface Asking {
  readonly isAlive: boolean;
  readonly isStopped: boolean;
  wake(run: () => void): void;
  /** Called before each request and before each response. The process may die during the call. */
  step(): void;
  /** Returns the observer of the current request. */
  witness(): Witness;
}
