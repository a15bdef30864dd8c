/** Types for observing the requests of a process and the service's responses. */
import type { Question } from './lists.ts';
import type { Entry, LoggedEvent, Run } from './truth.ts';

/** A listed row of the queue. */
export interface ShownEntry {
  readonly entry: Entry;
  /** Undefined if this list has no states. */
  readonly state: string | undefined;
  readonly run: Run | undefined;
}

/** `partial`: some rows are unreadable. `broken`: the response is not a list. `failed`: the request may be repeated. */
export type Quality = 'whole' | 'partial' | 'broken' | 'failed';

export interface Answered {
  readonly question: Question;
  readonly query: URLSearchParams;
  /** Times of the request and of the returned data (ms since the world's start). */
  readonly askedAt: number;
  readonly trueAt: number;
  readonly quality: Quality;
  readonly status: number | undefined;
  readonly isLast: boolean;
  readonly entries: readonly ShownEntry[];
  readonly hidden: readonly Entry[];
  readonly events: readonly LoggedEvent[];
  readonly key: string | undefined;
}

/** The observer of a process's requests. */
export interface Witness {
  asked(question: Question, query: URLSearchParams): void;
  answered(answer: Answered): void;
  /** Called when a request needs a connection. Returns how long connecting takes (ms). */
  connecting(what: Question | 'cancel'): number;
  /** Called when a DELETE is sent. */
  sent(id: string): void;
  /** Called with the status that the process is about to receive; undefined if the response is lost. */
  cancelAnswered(id: string, status: number | undefined): void;
}

/** The requesting process. A dead process receives no response; a stopped one receives it after SIGCONT. */
export interface Asking {
  readonly isAlive: boolean;
  readonly isStopped: boolean;
  wake(run: () => void): void;
  /** Called before each request and each response. The process may die there. */
  step(): void;
  /** Returns the observer of the current request. */
  witness(): Witness;
}
