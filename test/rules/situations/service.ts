/** The facts that the collectors of an account have read at a minute of a course. */
import { createDestinationTally, createLogTally } from '../../../src/collectors/events/tally.ts';
import type {
  DlqFacts,
  EventsFacts,
  FlowControlFacts,
  PlanFacts,
  QueuesFacts,
  RunsFacts,
  ScheduleFacts,
  ScheduleListFacts,
  TrackedKey,
} from '../../../src/collectors/index.ts';
import { flowStateOf } from '../../../src/model/flow-state.ts';
import { dlqFacts, eventsFacts, flowControlFacts, selection } from '../../support/shown-facts.ts';
import { type Input, JUDGED, type Name } from './course.ts';

const SECOND = 1000;
const MINUTE = 60_000;
export const START = Date.UTC(2026, 2, 14);

/** Facts of all collectors at one minute. */
export type Facts = ReturnType<ReturnType<typeof createService>>;

/** Returns a function that reads the service at a minute. Call it in ascending order of time. */
export function createService(input: Input) {
  const subjects = (name: Name) =>
    Object.keys(input).flatMap(key => (key.startsWith(`${name} `) ? key.slice(name.length + 1) : []));
  const destinations = [
    ...new Set(['', ...(['active', 'retry', 'error', 'delivered', 'failed'] as const).flatMap(subjects)]),
  ];
  const keys = [...new Set(subjects('waiting'))];
  const schedules = [...new Set([...subjects('missed'), ...subjects('late'), ...subjects('judged')])];
  const listed = [...new Set((['flopped', 'halted', 'extra', 'gone'] as const).flatMap(subjects))];
  /** Totals when the current store was created. */
  const base = new Map<string, number>();
  let known: { readonly dead: number; readonly entered: number; readonly since: number } | undefined;
  let shown: readonly TrackedKey[] = [];

  return (minute: number, isNewStore = false) => {
    const at = START + minute * MINUTE;
    const value = (name: Name, subject = '') =>
      input[(subject === '' ? name : `${name} ${subject}`) as keyof Input]?.(minute);
    const time = (name: Name, subject = '') => {
      const seconds = value(name, subject);
      return seconds === undefined ? undefined : START + seconds * SECOND;
    };
    function total(name: Name, subject = '', otherwise = 0): number {
      const [key, now] = [`${name} ${subject}`, value(name, subject) ?? otherwise];
      if (isNewStore) base.set(key, now);
      return now - (base.get(key) ?? 0);
    }

    function tallyOf(destination: string) {
      const tally = createDestinationTally();
      const count = (name: Name, otherwise = 0) => total(name, destination, otherwise);
      const [delivered, failed, retry] = [count('delivered'), count('failed'), count('retry')];
      const [error, active] = [count('error', failed + retry), count('active', delivered + failed + retry)];
      Object.assign(tally.events, { created: count('created'), active, retry, error, delivered, failed });
      Object.assign(tally.finished, { delivered, failed });
      tally.answers.success['2xx'] = delivered;
      tally.answers.error['5xx'] = error;
      return tally;
    }

    function scheduleOf(name: string): ScheduleFacts {
      const [judged, started, done] = [value('judged', name), time('started', name), time('done', name)];
      return {
        missed: total('missed', name),
        late: total('late', name),
        ...(started !== undefined && { lastStarted: started }),
        ...(done !== undefined && { lastDelivered: done }),
        next: time('next', name),
        ...(judged !== undefined && { judged: { at, as: JUDGED[judged] ?? 'ok' } }),
      };
    }

    const running = value('running');
    const isWaiting = keys.some(key => Number(value('waiting', key)) > 0);
    const parallelism = isWaiting && running !== undefined ? { limit: 100, inUse: running } : undefined;

    function keyOf(key: string): TrackedKey {
      const before = shown.find(each => each.key === key);
      const [isFull, isLimited] = [value('full', key) === 1, value('limited', key) === 1];
      const entry = {
        key,
        waitlistSize: value('waiting', key),
        paused: value('paused', key) === 1,
        parallelismLimit: 10,
        parallelismInUse: isFull ? 10 : 3,
        ...(isLimited && { rateLimit: 10, rateUsed: 10 }),
      };
      const state = flowStateOf(entry, before, parallelism);
      return { ...entry, state, since: state === before?.state ? before?.since : at };
    }

    const log = { ...createLogTally(), overdue: total('overdue'), gaps: total('gaps') };
    const events: EventsFacts = eventsFacts({
      gauges: {
        recent: createDestinationTally().events,
        newest: time('newest') ?? at - 15 * SECOND,
        inFlight: value('flying') ?? 0,
        oldestInFlight: undefined,
        overdue: value('stuck') ?? 0,
        lag: 0,
      } as EventsFacts['gauges'],
      since: START,
      log,
      destinations: new Map(destinations.map(name => [name, tallyOf(name)])),
      queues: {
        from: START - 1440 * MINUTE,
        deliveries: new Map(subjects('sent').map(name => [name, time('sent', name) ?? 0])),
      },
      schedules: new Map(schedules.map(name => [name, scheduleOf(name)])),
    });

    const dead = value('dead') ?? 0;
    if (isNewStore || !known) known = { dead, entered: 0, since: dead > 0 ? at - 60 * MINUTE : at };
    const since = known.dead > 0 || dead === 0 ? known.since : at;
    known = { dead, entered: known.entered + Math.max(0, dead - known.dead), since };
    const queue = selection({
      key: 'all',
      messages: dead,
      oldestEntered: dead === 0 ? undefined : (time('oldest') ?? since),
      entered: input.entered ? total('entered') : known.entered,
      left: { expired: total('expired'), removed: total('removed'), unknown: 0 },
    });
    const callbacks = { in_progress: 0, success: 0, fail: 0, canceled: 0, unknown: 0 };
    for (const state of subjects('callbacks')) Object.assign(callbacks, { [state]: value('callbacks', state) });
    const dlq: DlqFacts = dlqFacts({
      selections: new Map([['all', queue]]),
      callbacks,
      suspected: value('suspected') ?? 0,
    });

    shown = keys.map(keyOf);
    const flow_control: FlowControlFacts = flowControlFacts({ keys: keys.length, shown, parallelism });
    const most = value('most');
    const [quota, moved, counted] = [value('quota'), value('moved'), value('counted')];
    const limits = {
      ...(most !== undefined && { dlq_size: most }),
      ...(quota !== undefined && { requests_per_day: quota }),
    };
    const change = moved === undefined ? undefined : { at: START + moved * MINUTE, text: 'plan from free to paid' };
    const state = value('suspended') === 1 ? 'suspended' : 'active';
    const account: PlanFacts = {
      record: undefined,
      limits,
      read: { limits, state, readAt: at, change },
      usage: { at, requestsToday: value('used') ?? 0, dlqMessages: counted ?? dead },
    };
    const queues: QueuesFacts = {
      shown: subjects('lag').map(name => ({ name, lag: value('lag', name), paused: value('held', name) === 1 })),
      beyondCap: 0,
      beyondCapLag: 0,
    };
    const shownSchedules = listed.map((name): ScheduleListFacts['listed'][number] & { readonly isGone: boolean } => {
      const [pausedSince, goneSince] = [time('halted', name), time('gone', name)];
      const history = {
        ...{ id: name, seenAt: START - 2880 * MINUTE, expectedTo: at, missed: 0, unexpected: 0 },
        ...{
          paused: pausedSince !== undefined,
          pausedSince,
          sawPause: true,
          unexpectedAt: time('extra', name),
          goneSince,
        },
      };
      const row = {
        ...{ scheduleId: name, labels: [], paused: history.paused },
        ...(value('flopped', name) === 1 && { error: 'no such host' }),
      };
      return { name, isConfigured: false, row, history, isGone: goneSince !== undefined };
    });
    const schedulesNow: ScheduleListFacts = {
      states: { active: 0, paused: 0 },
      listed: shownSchedules.filter(({ isGone }) => !isGone),
      gone: shownSchedules.filter(({ isGone }) => isGone),
      beyondCap: 0,
    };
    const createdAt = time('ran');
    const isOld = createdAt !== undefined && at - createdAt >= 60 * MINUTE;
    const runs: RunsFacts = {
      olderThan: 60 * MINUTE,
      count: isOld ? 1 : 0,
      hasMore: false,
      oldest: isOld ? { runId: 'wfr_1', state: 'started', labels: [], createdAt } : undefined,
    };
    return { events, dlq, flow_control, queues, account, schedules: schedulesNow, runs };
  };
}
