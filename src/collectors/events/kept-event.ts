import { extendHash64 } from '../../kit/hash.ts';
import { EVENT_SEQUENCE, EVENT_STATES, isEnd } from '../../model/message.ts';

/** One event as it is kept: texts are hashes, times are milliseconds since the Unix epoch. */
export interface KeptEvent {
  /** What makes it the same event: its message, state and time. */
  readonly identity: bigint;
  readonly message: bigint;
  readonly state: number;
  readonly time: number;
  /** When the message is due, as far as the event says; 0 when it does not. */
  readonly dueAt: number;
  readonly destination: string;
  readonly schedules: readonly string[] | undefined;
  /** Flow-control key, as far as the row tells. Followed as soon as it is read, and not kept. */
  readonly flowKey?: string | undefined;
  /** Index in STATUS_CLASSES. Of no use once it is counted, and not kept. */
  readonly statusClass: number;
}

export const identityOf = (message: bigint, state: number, time: number) => extendHash64(message, state, time);

const ENDS = EVENT_STATES.map(isEnd);
export const isEnding = (state: number) => ENDS[state] === true;

const RANK_OF = EVENT_STATES.map(state => EVENT_SEQUENCE.indexOf(state));

export const byTime = (a: KeptEvent, b: KeptEvent) =>
  a.time - b.time || (RANK_OF[a.state] as number) - (RANK_OF[b.state] as number);
