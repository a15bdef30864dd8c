import type { Agenda } from './agenda.ts';
import { CALLERS, type Destination } from './destinations.ts';
import type { FlowControl } from './flow-control.ts';
import { type DlqEntry, deadLetter, type EventState, type LoggedEvent, type Message } from './message.ts';
import { messageId, type Random } from './random.ts';
import type { Timeline } from './timeline.ts';

export interface DeliveryParts {
  readonly seed: number;
  readonly random: Random;
  readonly agenda: Agenda;
  readonly flow: FlowControl;
  readonly log: Timeline<LoggedEvent>;
  readonly dlq: Timeline<DlqEntry>;
  /** Mean duration of an attempt that begins now, from the usual one; milliseconds. */
  readonly takesMs: (usual: number) => number;
}

/** Publishes a message to a destination at the agenda's time and gives its id; it fails at every attempt when `doomed`. */
export type Publish = (destination: Destination, doomed: boolean) => string;

/** Share of messages that are published with a delay and cancelled before it is over, and of retries that are cancelled. */
const CANCELLED_MESSAGES = 0.004;
const CANCELLED_RETRIES = 0.02;

/** The service's default delay in milliseconds before retry `attempt`, 1 and up: 12 s, 148 s, 30 min, 6 h, a day. */
export const retryDelay = (attempt: number) => Math.round(Math.min(86_400, Math.exp(2.5 * attempt)) * 1000);

const errorOf = (status: number) =>
  status === 0 ? 'connect: connection refused' : `the destination answered with status ${status}`;

/**
 * The life of a message: CREATED, ACTIVE, DELIVERED; or ACTIVE, ERROR, RETRY until it is DELIVERED or FAILED, and then a
 * dead letter from that millisecond on; or CANCEL_REQUESTED while it waits, and CANCELLED when its time would have come.
 */
export function createDelivery({ seed, random, agenda, flow, log, dlq, takesMs }: DeliveryParts): Publish {
  let published = 0;

  function record(message: Message, state: EventState, details?: Omit<LoggedEvent, 'message' | 'state'>): void {
    log.add(agenda.now, { message, state, ...details });
  }

  function cancelWhileWaiting(message: Message, until: number): void {
    agenda.at(agenda.now + Math.ceil((until - agenda.now) * random.fraction()), () => {
      record(message, 'cancel_requested');
      agenda.at(until, () => record(message, 'cancelled'));
    });
  }

  function attempt(message: Message, destination: Destination, doomed: boolean, retried: number): void {
    flow.enter(message.fields, () => {
      record(message, 'active');
      const fails = doomed || random.chance(destination.flaky);
      agenda.at(agenda.now + random.exponential(takesMs(destination.takesMs)), () => {
        if (fails) afterError(message, destination, doomed, retried);
        else record(message, 'delivered', { responseStatus: 200 });
        // Only now, so that the log of a key never shows more at work than its parallelism.
        flow.leave(message.fields);
      });
    });
  }

  function afterError(message: Message, destination: Destination, doomed: boolean, retried: number): void {
    const responseStatus = random.pick(destination.statuses);
    const error = errorOf(responseStatus);
    if (retried >= message.fields.maxRetries || responseStatus === 489) {
      record(message, 'error', { responseStatus, error });
      record(message, 'failed', { responseStatus, error });
      dlq.add(agenda.now, deadLetter(message, responseStatus));
      return;
    }
    const nextDeliveryTime = agenda.now + retryDelay(retried + 1);
    record(message, 'error', { responseStatus, error, nextDeliveryTime });
    record(message, 'retry', { nextDeliveryTime });
    if (random.chance(CANCELLED_RETRIES)) cancelWhileWaiting(message, nextDeliveryTime);
    else agenda.at(nextDeliveryTime, () => attempt(message, destination, doomed, retried + 1));
  }

  return (destination, doomed) => {
    const createdAt = agenda.now;
    const isCancelled = random.chance(CANCELLED_MESSAGES);
    const notBefore = isCancelled ? createdAt + random.between(20_000, 300_000) : createdAt;
    const message: Message = {
      fields: destination.fields,
      messageId: messageId(seed, 'w', published++),
      createdAt,
      notBefore,
      callerIP: random.pick(CALLERS),
    };
    record(message, 'created');
    if (isCancelled) cancelWhileWaiting(message, notBefore);
    else agenda.at(createdAt + random.between(1, 20), () => attempt(message, destination, doomed, 0));
    return message.messageId;
  };
}
