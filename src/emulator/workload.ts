import { createOccurrences } from '../kit/cron.ts';
import { Agenda } from './agenda.ts';
import { CALLERS, type Destination, QUEUE_PARALLELISM, destinations as usual } from './destinations.ts';
import { createFlowLimits, type FlowControl } from './flow-control.ts';
import type { EmulatedMessage, FailedMessage, Fields, LoggedEvent, LogState } from './message.ts';
import { createRandom, messageId, type Random } from './random.ts';
import type { Scenario } from './scenarios.ts';
import type { RowTimeline } from './timeline.ts';

/** How a schedule deviates at the moment; undefined if it behaves as usual. */
type ScheduleFate = ReturnType<NonNullable<Scenario['schedule']>>;

interface OpenSchedule {
  readonly destination: Destination;
  readonly createdAt: number;
  readonly next: (after: number) => number | undefined;
  paused: boolean;
  isRemoved: boolean;
  lastRunAt: number | undefined;
  states: Map<string, 'IN_PROGRESS' | 'SUCCESS' | 'FAIL'>;
}

/** A row of the list. Times in ms since the Unix epoch. */
export interface ScheduleDetail extends Readonly<Omit<OpenSchedule, 'next' | 'isRemoved'>> {
  readonly nextRunAt: number | undefined;
}

type PublishRun = (destination: Destination, fails: boolean) => readonly string[];

/** Time between the two starts of a duplicated scheduled start (ms). */
const TWICE_AFTER_MS = 1500;

const CRON = /^(?:CRON_TZ=(\S+) )?(.+)$/;

export type EmulatedSchedules = ReturnType<typeof createSchedulePlan>;

/** Publishes the messages of schedules at their cron times. */
function createSchedulePlan(agenda: Agenda, fateOf: (scheduleId: string) => ScheduleFate, publish: PublishRun) {
  const open = new Map<string, OpenSchedule>();

  const isRemoved = (scheduleId: string) =>
    open.get(scheduleId)?.isRemoved !== false || fateOf(scheduleId) === 'deleted';

  function start(scheduleId: string, schedule: OpenSchedule): void {
    const fate = fateOf(scheduleId);
    if (schedule.paused || fate === 'stops' || fate === 'paused' || isRemoved(scheduleId)) return;
    const run = () => {
      schedule.lastRunAt = agenda.now;
      const ids = publish(schedule.destination, fate === 'fails');
      schedule.states = new Map(ids.map(id => [id, 'IN_PROGRESS']));
    };
    run();
    if (fate === 'twice') agenda.at(agenda.now + TWICE_AFTER_MS, run);
  }

  function planNext(scheduleId: string, schedule: OpenSchedule): void {
    const next = schedule.next(agenda.now);
    if (next === undefined) return;
    agenda.at(next, () => {
      start(scheduleId, schedule);
      planNext(scheduleId, schedule);
    });
  }

  return {
    /** Plans the next start of a new schedule, or of a known schedule with a lost plan. */
    plan(scheduleId: string, cron: string, destination: Destination): void {
      const [, tz = 'UTC', fields = ''] = CRON.exec(cron) ?? [];
      const occurrenceAfter = createOccurrences(fields, tz);
      const schedule = open.get(scheduleId) ?? {
        destination,
        createdAt: agenda.now,
        next: after => occurrenceAfter(after)?.at,
        paused: false,
        isRemoved: false,
        lastRunAt: undefined,
        states: new Map(),
      };
      open.set(scheduleId, schedule);
      planNext(scheduleId, schedule);
    },
    ended({ fields, messageId }: EmulatedMessage, state: LogState): void {
      const states = open.get(fields.scheduleId ?? '')?.states;
      if (states?.has(messageId)) states.set(messageId, state === 'delivered' ? 'SUCCESS' : 'FAIL');
    },
    /** Pauses, resumes or removes a schedule. Returns false for an unknown schedule. */
    change(scheduleId: string, change: 'pause' | 'resume' | 'remove'): boolean {
      const schedule = open.get(scheduleId);
      if (!schedule || isRemoved(scheduleId)) return false;
      if (change === 'remove') schedule.isRemoved = true;
      else schedule.paused = change === 'pause';
      return true;
    },
    /** Lists the schedules. The next start also moves while a schedule is paused. */
    list: (): readonly ScheduleDetail[] =>
      [...open].flatMap(([scheduleId, { next, ...schedule }]) => {
        if (isRemoved(scheduleId)) return [];
        const paused = schedule.paused || fateOf(scheduleId) === 'paused';
        return [{ ...schedule, paused, nextRunAt: next(agenda.now) }];
      }),
  };
}

export interface WorkloadParts {
  readonly start: number;
  readonly seed: number;
  readonly scenario: Scenario;
  readonly log: RowTimeline<LoggedEvent>;
  readonly dlq: RowTimeline<FailedMessage>;
  readonly expire: (now: number) => void;
  readonly isIdle: boolean;
  readonly destinations?: readonly Destination[] | undefined;
}

/**
 * Maximum time that is simulated when the state is read after a gap (ms): simulating days would block the process. The
 * retention of the event log must not be longer.
 */
export const MAX_CATCH_UP_MS = 6 * 3_600_000;

/** Mean time between visits of an operator (ms), and share and maximum number of dead letters per visit. */
const VISIT_EVERY_MS = 12 * 60_000;
const VISITED_SHARE = 0.1;
const MAX_VISITED = 25;

/** Behaviour of destinations that are not listed: messages always succeed. */
const UNKNOWN_DESTINATION = { everyMs: 0, takesMs: 200, flaky: 0, doomed: 0, statuses: [500] } as const;

function unscheduled(destination: Destination): Destination {
  const { scheduleId, ...fields } = destination.fields;
  return scheduleId === undefined ? destination : { ...destination, fields };
}

/** Simulates publishers, destinations and operators. The result does not depend on how often the state is read. */
export function createWorkload(parts: WorkloadParts) {
  const { start, seed, scenario, dlq, expire, isIdle, destinations = usual } = parts;
  const random = createRandom(seed);
  const agenda = new Agenda(start);
  /** Destinations of republished messages, without schedules: a republished message is not a start of its schedule. */
  const republished = new Map(destinations.map(each => [each, unscheduled(each)]));
  const destinationOf = new Map<Fields, Destination>([...republished].flat().map(each => [each.fields, each]));
  const flow = createFlowLimits(agenda, key => scenario.limits?.(key, agenda.now - start));
  const queues = createFlowLimits(agenda, undefined, Number.POSITIVE_INFINITY);
  const fateOf = (scheduleId: string) => scenario.schedule?.(scheduleId, agenda.now - start);
  const schedules = createSchedulePlan(agenda, fateOf, publishBurst);
  const takesMs = (usual: number) => scenario.takesMs?.(usual, agenda.now - start) ?? usual;
  const delivery = createDelivery(parts, random, agenda, { flow, queues, schedules }, takesMs);
  const { publish } = delivery;

  function publishBurst(destination: Destination, fails: boolean): readonly string[] {
    const [least, most] = destination.burst ?? [1, 1];
    const doomed = scenario.doomed?.(destination.doomed, agenda.now - start) ?? destination.doomed;
    const share = fails ? 1 : doomed;
    const count = random.between(least, most);
    return Array.from({ length: count }, () => publish(destination, random.chance(share)));
  }

  function planArrival(destination: Destination): void {
    const { fields, everyMs, cron } = destination;
    if (cron !== undefined) {
      schedules.plan(fields.scheduleId ?? cron, cron, destination);
      return;
    }
    agenda.at(agenda.now + random.exponential(everyMs), () => {
      publishBurst(destination, false);
      planArrival(destination);
    });
  }

  /** Removes some dead letters, half of which are republished. */
  function visit(): void {
    // Expire and compact first, so that the draw does not depend on earlier reads.
    expire(agenda.now);
    dlq.compact();
    for (let left = Math.min(MAX_VISITED, Math.ceil(dlq.size * VISITED_SHARE)); left > 0; left--) {
      const entry = dlq.at(random.fraction());
      const destination = entry && destinationOf.get(entry.value.message.fields);
      if (!destination || (destination.neglected && !scenario.isTidy)) continue;
      dlq.remove(entry);
      if (random.chance(0.5)) publish(republished.get(destination) ?? destination, random.chance(0.1));
    }
    planVisit();
  }

  function planVisit(): void {
    // With random intervals, about one interval a day would exceed an hour.
    agenda.at(agenda.now + (scenario.isTidy ? VISIT_EVERY_MS : random.exponential(VISIT_EVERY_MS)), visit);
  }

  function begin(): void {
    if (isIdle) return;
    for (const { fields } of destinations)
      if (fields.queueName !== undefined) queues.open(fields.queueName, queueLimit(fields));
    for (const destination of destinations) planArrival(destination);
    if (!scenario.unattended) planVisit();
  }
  begin();

  return {
    advanceTo(now: number): void {
      if (now - agenda.now > MAX_CATCH_UP_MS) {
        agenda.restart(now - MAX_CATCH_UP_MS);
        flow.clear();
        queues.clear();
        begin();
      }
      agenda.runUntil(now);
      expire(agenda.now);
    },
    flow,
    queues,
    schedules,
    messagesToday: () => delivery.messagesOn(dayOf(agenda.now)),
    /** Publishes a message and returns its id. Changes all later random draws. */
    publish: (fields: Fields): string =>
      publish(destinationOf.get(fields) ?? { fields, ...UNKNOWN_DESTINATION }, false),
  };
}

const dayOf = (time: number) => Math.floor(time / 86_400_000);

/** Returns the limit of a message's queue with the field names of a flow-control limit. */
const queueLimit = ({ queueName }: Fields) => ({
  flowControlKey: queueName,
  parallelism: QUEUE_PARALLELISM.get(queueName) ?? 100,
});

/** Share of messages that are cancelled while delayed. */
const CANCELLED_MESSAGES = 0.004;
const CANCELLED_RETRIES = 0.02;

/** Returns the service's default delay (ms) before retry number `attempt` (1, 2, …): 12 s, 148 s, 30 min, 6 h, a day. */
export const retryDelay = (attempt: number) => Math.round(Math.min(86_400, Math.exp(2.5 * attempt)) * 1000);

const errorOf = (status: number) =>
  status === 0 ? 'connect: connection refused' : `the destination answered with status ${status}`;

/**
 * Simulates the lifecycle of a message. After CREATED, each attempt is ACTIVE, then DELIVERED or ERROR. ERROR is followed by
 * RETRY, or by FAILED after the last attempt. A waiting message can become CANCEL_REQUESTED, and CANCELLED when it is due. A
 * FAILED message becomes a dead letter in the same millisecond.
 */
function createDelivery(
  { seed, log, dlq, scenario: { redelivered = 0 } }: WorkloadParts,
  random: Random,
  agenda: Agenda,
  { flow, queues, schedules }: { flow: FlowControl; queues: FlowControl; schedules: EmulatedSchedules },
  takesMs: (usual: number) => number,
) {
  let published = 0;
  let today = { day: 0, messages: 0 };

  function record(message: EmulatedMessage, state: LogState, details?: Omit<LoggedEvent, 'message' | 'state'>): void {
    log.add(agenda.now, { message, state, ...details });
    if (state === 'delivered' || state === 'failed' || state === 'cancelled') schedules.ended(message, state);
  }

  function cancelWhileWaiting(message: EmulatedMessage, until: number): void {
    agenda.at(agenda.now + Math.ceil((until - agenda.now) * random.fraction()), () => {
      record(message, 'cancel_requested');
      agenda.at(until, () => record(message, 'cancelled'));
    });
  }

  function attempt(message: EmulatedMessage, destination: Destination, doomed: boolean, retried: number): void {
    const enter = () => {
      record(message, 'active');
      // Do not draw in other scenarios: a draw would change all later draws.
      const isLost = redelivered > 0 && random.chance(redelivered);
      const fails = doomed || random.chance(destination.flaky);
      agenda.at(agenda.now + random.exponential(takesMs(destination.takesMs)), () => {
        if (isLost) attempt(message, destination, doomed, retried);
        else if (fails) afterError(message, destination, doomed, retried);
        else record(message, 'delivered', { responseStatus: 200 });
        // Release the slot after logging the outcome, so that the log never shows more deliveries than the parallelism allows.
        flow.leave(message.fields);
        queues.leave(queue);
      });
    };
    const queue = queueLimit(message.fields);
    queues.enter(queue, () => flow.enter(message.fields, enter));
  }

  function afterError(message: EmulatedMessage, destination: Destination, doomed: boolean, retried: number): void {
    const responseStatus = random.pick(destination.statuses);
    const error = errorOf(responseStatus);
    if (retried >= message.fields.maxRetries || responseStatus === 489) {
      record(message, 'error', { responseStatus, error });
      record(message, 'failed', { responseStatus, error });
      dlq.add(agenda.now, { message, responseStatus });
      return;
    }
    const nextDeliveryTime = agenda.now + retryDelay(retried + 1);
    record(message, 'error', { responseStatus, error, nextDeliveryTime });
    record(message, 'retry', { nextDeliveryTime });
    if (random.chance(CANCELLED_RETRIES)) cancelWhileWaiting(message, nextDeliveryTime);
    else agenda.at(nextDeliveryTime, () => attempt(message, destination, doomed, retried + 1));
  }

  /** Publishes a message and returns its id. `doomed`: every attempt fails. */
  function publish(destination: Destination, doomed: boolean): string {
    const createdAt = agenda.now;
    const isCancelled = random.chance(CANCELLED_MESSAGES);
    const notBefore = isCancelled ? createdAt + random.between(20_000, 300_000) : createdAt;
    const message: EmulatedMessage = {
      fields: destination.fields,
      messageId: messageId(seed, 'w', published++),
      createdAt,
      notBefore,
      callerIP: random.pick(CALLERS),
    };
    const day = dayOf(createdAt);
    today = { day, messages: today.day === day ? today.messages + 1 : 1 };
    record(message, 'created');
    if (isCancelled) cancelWhileWaiting(message, notBefore);
    else agenda.at(createdAt + random.between(1, 20), () => attempt(message, destination, doomed, 0));
    return message.messageId;
  }

  return { publish, messagesOn: (day: number) => (today.day === day ? today.messages : 0) };
}
