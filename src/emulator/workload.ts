import { Agenda } from './agenda.ts';
import { CALLERS, type Destination, destinations as usual } from './destinations.ts';
import type { Dialect } from './dialect.ts';
import { FlowControl } from './flow-control.ts';
import { type DlqEntry, deadLetter, type EventState, type Fields, type LoggedEvent, type Message } from './message.ts';
import { createRandom, messageId, type Random } from './random.ts';
import type { Scenario } from './scenarios.ts';
import type { Timeline } from './timeline.ts';

export interface WorkloadParts {
  readonly start: number;
  readonly seed: number;
  readonly scenario: Scenario;
  readonly dialect: Pick<Dialect, 'retrySlot'>;
  readonly log: Timeline<LoggedEvent>;
  readonly dlq: Timeline<DlqEntry>;
  readonly expire: (now: number) => void;
  readonly isIdle: boolean;
  readonly destinations?: readonly Destination[] | undefined;
}

/** Longest pause (ms) that is simulated; days would block the process. The event log must not reach further back. */
export const LONGEST_CATCH_UP_MS = 6 * 3_600_000;

/** Mean time between two visits of an operator to the dead letters, and how many of them a visit deals with. */
const VISIT_EVERY_MS = 12 * 60_000;
const VISITED_SHARE = 0.1;
const VISITED_AT_MOST = 25;

/** A destination that is none of the workload's takes every message. */
const UNKNOWN_DESTINATION = { everyMs: 0, takesMs: 200, flaky: 0, doomed: 0, statuses: [500] } as const;

/** Publishers, destinations and operators, all driven by one seed: what happens until a time does not depend on how often it is asked for. */
export function createWorkload(parts: WorkloadParts) {
  const { start, seed, scenario, dlq, expire, isIdle, destinations = usual } = parts;
  const random = createRandom(seed);
  const agenda = new Agenda(start);
  const destinationOf = new Map<Fields, Destination>(destinations.map(each => [each.fields, each]));
  // Draws of its own: a leak must not change what else the seed brings.
  const chance = createRandom(seed + 5);
  const flow = new FlowControl(agenda, () => {
    const share = scenario.leaks?.(agenda.now - start) ?? 0;
    return share > 0 && chance.chance(share);
  });
  const takesMs = (usual: number) => scenario.takesMs?.(usual, agenda.now - start) ?? usual;
  const publish = createDelivery(parts, random, agenda, flow, takesMs);

  function arrive(destination: Destination): void {
    const { scheduleId } = destination.fields;
    const fate = scheduleId === undefined ? undefined : scenario.schedule?.(scheduleId, agenda.now - start);
    const [least, most] = fate === 'stops' ? [0, 0] : (destination.burst ?? [1, 1]);
    const doomed = scenario.doomed?.(destination.doomed, agenda.now - start) ?? destination.doomed;
    const share = fate === 'fails' ? 1 : doomed;
    for (let left = random.between(least, most); left > 0; left--) publish(destination, random.chance(share));
    planArrival(destination);
  }

  function planArrival(destination: Destination): void {
    const { fields, everyMs, burst } = destination;
    const isExact = fields.scheduleId !== undefined && !burst;
    // Where a scenario is about schedules, they fire when a clock shows their time.
    const exact = scenario.schedule ? everyMs - (agenda.now % everyMs) : everyMs;
    const wait = isExact ? exact : random.exponential(everyMs);
    agenda.at(agenda.now + wait, () => arrive(destination));
  }

  /** Half of the entries that an operator deals with are published again, as new messages. */
  function visit(): void {
    // Which row is drawn must not depend on when the state was last asked for, so expired rows and tombstones go first.
    expire(agenda.now);
    dlq.compact();
    for (let left = Math.min(VISITED_AT_MOST, Math.ceil(dlq.size * VISITED_SHARE)); left > 0; left--) {
      const entry = dlq.at(random.fraction());
      const destination = entry && destinationOf.get(entry.value.fields);
      if (!destination || (destination.neglected && !scenario.isTidy)) continue;
      dlq.remove(entry);
      if (random.chance(0.5)) publish(destination, random.chance(0.1));
    }
    planVisit();
  }

  function planVisit(): void {
    // An hour without a visit, which chance brings every other day, would double what waits.
    agenda.at(agenda.now + (scenario.isTidy ? VISIT_EVERY_MS : random.exponential(VISIT_EVERY_MS)), visit);
  }

  function begin(): void {
    if (isIdle) return;
    for (const destination of destinations) planArrival(destination);
    if (!scenario.unattended) planVisit();
  }
  begin();

  return {
    advanceTo(now: number): void {
      if (now - agenda.now > LONGEST_CATCH_UP_MS) {
        agenda.restart(now - LONGEST_CATCH_UP_MS);
        flow.clear();
        begin();
      }
      agenda.runUntil(now);
      expire(agenda.now);
    },
    flow,
    /** Publishes a message with these fields and gives its id. Unlike all else it changes what the seed would make happen next. */
    publish: (fields: Fields): string =>
      publish(destinationOf.get(fields) ?? { fields, ...UNKNOWN_DESTINATION }, false),
  };
}

/** Share of messages that are published with a delay and cancelled before it is over, and of retries that are cancelled. */
const CANCELLED_MESSAGES = 0.004;
const CANCELLED_RETRIES = 0.02;

/** The service's default delay in milliseconds before retry `attempt`, 1 and up: 12 s, 148 s, 30 min, 6 h, a day. */
export const retryDelay = (attempt: number) => Math.round(Math.min(86_400, Math.exp(2.5 * attempt)) * 1000);

/** The longest delay before a retry that is a brief one. */
const BRIEF_MS = 60_000;

const errorOf = (status: number) =>
  status === 0 ? 'connect: connection refused' : `the destination answered with status ${status}`;

/**
 * The lifecycle of a message: CREATED, ACTIVE, DELIVERED; or ACTIVE, ERROR, RETRY until it is DELIVERED or FAILED, and then a
 * dead letter from that millisecond on; or CANCEL_REQUESTED while it waits, and CANCELLED when its time would have come.
 */
function createDelivery(
  { seed, dialect, log, dlq }: WorkloadParts,
  random: Random,
  agenda: Agenda,
  flow: FlowControl,
  takesMs: (usual: number) => number,
) {
  let published = 0;

  function record(message: Message, state: EventState, details?: Omit<LoggedEvent, 'message' | 'state'>): void {
    log.add(agenda.now, { message, state, ...details });
  }

  function cancelWhileWaiting(message: Message, until: number, then?: () => void): void {
    agenda.at(agenda.now + Math.ceil((until - agenda.now) * random.fraction()), () => {
      record(message, 'cancel_requested');
      agenda.at(until, () => {
        record(message, 'cancelled');
        then?.();
      });
    });
  }

  function attempt(
    message: Message,
    destination: Destination,
    doomed: boolean,
    retried: number,
    hasSlot = false,
  ): void {
    const enter = () => {
      record(message, 'active');
      const fails = doomed || random.chance(destination.flaky);
      agenda.at(agenda.now + random.exponential(takesMs(destination.takesMs)), () => {
        const keepsSlot = fails && afterError(message, destination, doomed, retried);
        if (!fails) record(message, 'delivered', { responseStatus: 200 });
        // Only now, so that the log of a key never shows more at work than its parallelism.
        if (!keepsSlot) flow.leave(message.fields);
      });
    };
    if (hasSlot) flow.enterAgain(message.fields, enter);
    else flow.enter(message.fields, enter);
  }

  function afterError(message: Message, destination: Destination, doomed: boolean, retried: number): boolean {
    const responseStatus = random.pick(destination.statuses);
    const error = errorOf(responseStatus);
    if (retried >= message.fields.maxRetries || responseStatus === 489) {
      record(message, 'error', { responseStatus, error });
      record(message, 'failed', { responseStatus, error });
      dlq.add(agenda.now, deadLetter(message, responseStatus));
      return false;
    }
    const delay = destination.retryMs ?? retryDelay(retried + 1);
    const nextDeliveryTime = agenda.now + delay;
    record(message, 'error', { responseStatus, error, nextDeliveryTime });
    record(message, 'retry', { nextDeliveryTime });
    const keeps = dialect.retrySlot === 'kept' || (dialect.retrySlot === 'kept-briefly' && delay <= BRIEF_MS);
    const giveBack = () => keeps && flow.leave(message.fields);
    if (random.chance(CANCELLED_RETRIES)) cancelWhileWaiting(message, nextDeliveryTime, giveBack);
    else agenda.at(nextDeliveryTime, () => attempt(message, destination, doomed, retried + 1, keeps));
    return keeps;
  }

  /** Publishes a message at the agenda's time and gives its id; it fails at every attempt when `doomed`. */
  return (destination: Destination, doomed: boolean): string => {
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
