import { extendHash64 } from '../../kit/hash.ts';
import { EVENT_SEQUENCE, EVENT_STATES, isEnd } from '../../model/message.ts';

/** An event in memory. Texts are hashed. Times are in milliseconds since the Unix epoch. */
export interface KeptEvent {
  /** Hash of message, state and time, which identify an event. */
  readonly identity: bigint;
  readonly message: bigint;
  readonly state: number;
  readonly time: number;
  /** Due time of the message; 0 if the event does not contain it. */
  readonly dueAt: number;
  readonly destination: string;
  readonly schedules: readonly string[] | undefined;
  /** Index in STATUS_CLASSES. Not stored: only used when the event is counted. */
  readonly statusClass: number;
}

export const eventIdentity = (message: bigint, state: number, time: number) => extendHash64(message, state, time);

const ENDS = EVENT_STATES.map(isEnd);
export const isEnding = (state: number) => ENDS[state] === true;

/** Whether an event shows that an attempt has failed. */
export const isResult = (state: number) => EVENT_STATES[state] === 'error' || EVENT_STATES[state] === 'retry';

const RANK_OF = EVENT_STATES.map(state => EVENT_SEQUENCE.indexOf(state));

export const byTime = (a: KeptEvent, b: KeptEvent) =>
  a.time - b.time || (RANK_OF[a.state] as number) - (RANK_OF[b.state] as number);
