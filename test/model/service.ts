/** The simulated service: an undici dispatcher without sockets, whose responses are correct or deliberately faulty. */
import type { Dispatcher } from 'undici';
import type { Random } from '../../src/emulator/random.ts';
import { bodyOf, type CancelFault, type Fault, statusOf } from './faults.ts';
import { createLists, type Question, questionOf } from './lists.ts';
import { START } from './settings.ts';
import type { Time } from './time.ts';
import {
  type Entry,
  isListed,
  type LoggedEvent,
  rowOf,
  runAt,
  runRowOf,
  type Shape,
  sizeAt,
  stateAt,
  type Truth,
} from './truth.ts';
import type { Answered, Asking, Quality } from './witness.ts';

interface Armed<T> {
  readonly fault: T;
  readonly question: Question | 'any' | 'cancel';
  skip: number;
  left: number;
}

export interface Service {
  arm(question: Question | 'any', fault: Fault, skip: number, count: number): void;
  armCancel(fault: CancelFault, count: number): void;
  /** All requests fail until this time. */
  outageUntil: number;
  /** The token is rejected until this time. */
  refusesUntil: number;
  dispatcherFor(asking: Asking): Dispatcher;
  /** Number of injections of each fault. */
  readonly met: Map<string, number>;
}

export interface ServiceDeps {
  readonly time: Time;
  readonly truth: Truth;
  readonly shape: Shape;
  readonly random: Random;
  /**
   * Returns the offset of the service's `Date` header from the world's time (ms). The header follows the agent's clock, because
   * the agent does not cancel while the clock skew is large.
   */
  clockOffset(): number;
}

interface Reply {
  readonly status: number;
  readonly body: string;
  readonly headers?: Record<string, string>;
  readonly answered: Answered;
}

/** Ratio of the page size of the log to that of the queue. */
const EVENTS_A_ROW = 10;

const NOTHING = { entries: [], hidden: [], events: [], key: undefined, isLast: false };

export function createService({ time, truth, shape, random, clockOffset }: ServiceDeps): Service {
  const lists = createLists(truth, shape);
  const armed: Armed<Fault>[] = [];
  const armedCancels: Armed<CancelFault>[] = [];
  const met = new Map<string, number>();
  let salt = 0;

  function nextFault<T extends string>(list: Armed<T>[], question: Question | 'cancel'): T | undefined {
    const index = list.findIndex(each => each.question === 'any' || each.question === question);
    const found = list[index];
    if (!found) return undefined;
    if (found.skip > 0) {
      found.skip -= 1;
      return undefined;
    }
    found.left -= 1;
    if (found.left <= 0) list.splice(index, 1);
    met.set(found.fault, (met.get(found.fault) ?? 0) + 1);
    return found.fault;
  }

  /** Returns the response to a list request, correct or faulty. */
  function listReply<T>(
    base: Omit<Answered, 'quality' | 'status' | 'isLast' | keyof typeof NOTHING>,
    list: string,
    page: { place: string; rows: readonly T[]; next: string | undefined },
    toRow: (row: T) => object,
    shown: (rows: readonly T[]) => Partial<Answered>,
    fault: Fault | undefined,
  ): Reply {
    const { rows, next, place } = page;
    const written = rows.map(toRow);
    const cursor = (at: string) => {
      salt += 1;
      return `${at}~${salt}`;
    };
    const answer = (quality: Quality, isLast: boolean, more: Partial<Answered> = {}): Answered => ({
      ...base,
      ...NOTHING,
      ...more,
      quality,
      status: 200,
      isLast,
    });
    const body = fault && bodyOf(fault, list, written);
    if (body !== undefined) return { status: 200, body, answered: answer('broken', false) };
    const nextCursor = next === undefined ? {} : { cursor: cursor(next) };
    const whole = { [list]: written, ...nextCursor };
    if (fault === 'some_unreadable' && rows.length > 0) {
      const [, ...others] = written;
      const quality = rows.length === 1 ? 'broken' : 'partial';
      const hidden = (shown(rows.slice(0, 1)).entries ?? []).map(({ entry }) => entry);
      return {
        status: 200,
        body: JSON.stringify({ ...whole, [list]: [{ state: 'unreadable' }, ...others] }),
        answered: answer(quality, next === undefined, { ...shown(rows.slice(1)), hidden }),
      };
    }
    if (fault === 'cursor_loop' && list !== 'flowControls') {
      // The page is correct, but its cursor leads to the same page again.
      return {
        status: 200,
        body: JSON.stringify({ ...whole, cursor: `${place}~0` }),
        answered: answer('whole', false, shown(rows)),
      };
    }
    if (list !== 'flowControls' && (fault === 'page_twice' || fault === 'empty_page')) {
      const again = fault === 'page_twice' ? written : [];
      const listed = fault === 'page_twice' ? shown(rows) : {};
      return {
        status: 200,
        body: JSON.stringify({ [list]: again, cursor: cursor(place) }),
        answered: answer('whole', false, listed),
      };
    }
    return { status: 200, body: JSON.stringify(whole), answered: answer('whole', next === undefined, shown(rows)) };
  }

  function reply(
    question: Question,
    path: string,
    query: URLSearchParams,
    askedAt: number,
    fault: Fault | undefined,
  ): Reply {
    const now = time.now;
    const base = { question, query, askedAt, trueAt: now };
    const failed = (status: number, body = '{"error":"no"}', headers = {}): Reply => {
      const isRetried = status === 429 || status >= 500;
      const quality: Quality = isRetried ? 'failed' : 'broken';
      return { status, body, headers, answered: { ...base, ...NOTHING, quality, status } };
    };
    if (now < refusal.until) return failed(401);
    const status = fault && statusOf(fault);
    if (status === 429) return failed(429, '{}', { 'retry-after': String(random.pick([1, 5, 20, 90])) });
    if (status === 302) return failed(302, '', { location: 'http://elsewhere.test/' });
    if (status) return failed(status);
    if (question === 'events' || question === 'lookup') {
      const all = lists.events(query, now);
      const page = lists.page(
        all,
        query,
        (event, place) =>
          all.indexOf(event) > all.findIndex(each => `${each.time}_${each.messageId}_${each.state}` === place),
        ({ time: at, messageId, state }) => `${at}_${messageId}_${state}`,
        shape.page * EVENTS_A_ROW,
      );
      const toRow = ({ messageId, state, time: at }: LoggedEvent) => ({ messageId, state, time: String(START + at) });
      return listReply(base, 'events', page, toRow, events => ({ events }), fault);
    }
    if (question === 'runs') {
      if (!shape.hasRuns) {
        const answered = { ...base, ...NOTHING, quality: 'whole', status: 404, isLast: true } as const;
        return { status: 404, body: '{"error":"no such path"}', answered };
      }
      const page = { place: '', rows: lists.runs(query, now), next: undefined };
      const toRow = (entry: Entry) => runRowOf(entry, now, shape, clockOffset());
      const toShown = (entry: Entry) => ({
        entry,
        state: undefined,
        run: shape.hidesStates ? undefined : runAt(entry, now),
      });
      return listReply(base, 'runs', page, toRow, runs => ({ entries: runs.map(toShown) }), fault);
    }
    if (question === 'flow') {
      const keys = [...truth.keys].filter(([, sizes]) => sizeAt(sizes, now) >= 0);
      const toRow = ([flowControlKey, sizes]: (typeof keys)[number]) => ({
        flowControlKey,
        waitListSize: sizeAt(sizes, now),
      });
      return listReply(base, 'flowControls', { place: '', rows: keys, next: undefined }, toRow, () => ({}), fault);
    }
    if (question === 'key') {
      const key = decodeURIComponent(path.slice('/v2/flowControl/'.length));
      const size = sizeAt(truth.keys.get(key) ?? [], now);
      const answered = { ...base, ...NOTHING, key };
      if (size < 0)
        return { status: 404, body: '{"error":"none"}', answered: { ...answered, quality: 'whole', status: 404 } };
      const isBroken = fault !== undefined && fault !== 'slow';
      // A broken response must not merely omit `waitlistSize`, because the agent may treat a missing size as zero.
      const body = isBroken ? '{"message":"maintenance"}' : JSON.stringify({ flowControlKey: key, waitlistSize: size });
      return { status: 200, body, answered: { ...answered, quality: isBroken ? 'broken' : 'whole', status: 200 } };
    }
    if (question === 'workflows' && shape.source === 'unknown') {
      return { ...failed(400), answered: { ...base, ...NOTHING, quality: 'whole', status: 400, isLast: true } };
    }
    const hasState = shape.source !== 'apart' || query.get('source') !== null;
    const page = lists.page(
      lists.entries(query, now),
      query,
      (entry, place) => truth.entries.indexOf(entry) > Number(place),
      entry => String(truth.entries.indexOf(entry)),
    );
    const shown = (entries: readonly Entry[]) => ({
      entries: entries.map(entry => ({
        entry,
        state: hasState && !shape.hidesStates ? stateAt(entry, now) : undefined,
        run: runAt(entry, now),
      })),
    });
    return listReply(base, 'messages', page, entry => rowOf(entry, now, shape, hasState), shown, fault);
  }

  function cancel(id: string, fault: CancelFault | undefined): { status: number | undefined; isReset: boolean } {
    const now = time.now;
    const entry = truth.entries.find(({ dlqId }) => dlqId === id);
    const run = entry && isListed(entry, now) ? runAt(entry, now) : undefined;
    const isInProgress = entry !== undefined && run !== undefined && stateAt(entry, now) === 'INPROGRESS';
    const isRefused = fault === 's429' || fault === 's401' || fault?.endsWith('_undone') || now < refusal.until;
    if (isInProgress && !isRefused) run.cancelledAt = now + random.pick([0, 0, 3000, 40_000]);
    if (now < refusal.until) return { status: 401, isReset: false };
    const forced = Number(/^s(\d+)/.exec(fault ?? '')?.[1]);
    if (forced) return { status: forced, isReset: false };
    if (fault?.startsWith('lost') || fault?.startsWith('reset'))
      return { status: undefined, isReset: fault.startsWith('reset') };
    if (!entry || !isListed(entry, now)) return { status: 404, isReset: false };
    return { status: isInProgress ? random.pick([200, 202, 204, 302]) : 400, isReset: false };
  }

  const refusal = { until: 0 };
  const outage = { until: 0 };

  function dispatch(
    asking: Asking,
    { path, method }: Dispatcher.DispatchOptions,
    handler: Dispatcher.DispatchHandler,
  ): boolean {
    if (!asking.isAlive) return true;
    if (asking.isStopped) {
      asking.wake(() => void dispatch(asking, { path, method } as Dispatcher.DispatchOptions, handler));
      return true;
    }
    asking.step();
    if (!asking.isAlive) return true;
    const url = new URL(`http://service.test${path}`);
    const isCancel = method === 'DELETE';
    const id = isCancel ? decodeURIComponent(url.pathname.split('/').at(-1) ?? '') : '';
    const question = questionOf(url.pathname, url.searchParams);
    const isOut = time.now < outage.until;
    const cancelFault = isCancel ? (nextFault(armedCancels, 'cancel') ?? (isOut ? 'unsent' : undefined)) : undefined;
    const isOptional = url.pathname === '/v2/globalParallelism';
    const fault = isCancel || isOptional ? undefined : (nextFault(armed, question) ?? (isOut ? 'reset' : undefined));
    const witness = asking.witness();
    const askedAt = time.now;
    let hasEnded = false;
    const fail = (error: Error) => {
      if (hasEnded) return;
      hasEnded = true;
      queueMicrotask(() => handler.onResponseError?.(controller as never, error));
    };
    const controller = {
      aborted: false,
      paused: false,
      reason: null,
      rawHeaders: [],
      pause() {},
      resume() {},
      abort: fail,
    };
    // The model's service lacks the account's parallelism.
    if (isOptional) {
      queueMicrotask(() => {
        handler.onResponseStart?.(controller as never, 404, { 'content-type': 'application/json' }, 'Not Found');
        handler.onResponseData?.(controller as never, Buffer.from('{}'));
        handler.onResponseEnd?.(controller as never, {});
      });
      return true;
    }
    const refused = (code: string) => Object.assign(new Error('connect'), { code });
    if (cancelFault === 'unsent') {
      fail(refused('ECONNREFUSED'));
      return true;
    }
    const isSlow = fault === 'slow' || cancelFault === 'slow_done';
    const latency = isSlow ? random.between(5000, 28_000) : random.between(10, 300);
    const deliver = (
      status: number | undefined,
      body: string,
      headers: Record<string, string>,
      onDelivered: () => void,
      isReset: boolean,
      date = new Date(START + time.now + clockOffset()).toUTCString(),
    ) =>
      time.after(latency / 2, () =>
        asking.wake(() => {
          if (hasEnded) return;
          asking.step();
          if (!asking.isAlive) return;
          onDelivered();
          if (status === undefined) {
            if (isReset) fail(refused('ECONNRESET'));
            return;
          }
          hasEnded = true;
          const all = { 'content-type': 'application/json', date, ...headers };
          handler.onResponseStart?.(controller as never, status, all, '');
          handler.onResponseData?.(controller as never, Buffer.from(body));
          handler.onResponseEnd?.(controller as never, {});
        }),
      );
    const serve = () => {
      if (isCancel) {
        const { status, isReset } = cancel(id, cancelFault);
        deliver(status, '', {}, () => witness.cancelAnswered(id, status), isReset);
        return;
      }
      if (fault === 'no_answer' || fault === 'reset') {
        const answered: Answered = {
          question,
          query: url.searchParams,
          askedAt,
          trueAt: time.now,
          ...NOTHING,
          quality: 'failed',
          status: undefined,
        };
        deliver(undefined, '', {}, () => witness.answered(answered), fault === 'reset');
        return;
      }
      const { status, body, headers = {}, answered } = reply(question, url.pathname, url.searchParams, askedAt, fault);
      deliver(status, body, headers, () => witness.answered(answered), false);
    };
    const leave = () => {
      handler.onRequestStart?.(controller as never, {});
      if (hasEnded) return;
      if (isCancel) witness.sent(id);
      else witness.asked(question, url.searchParams);
      time.after(latency / 2, serve);
    };
    const wait = witness.connecting(isCancel ? 'cancel' : question);
    if (wait > 0 || asking.isStopped) time.after(wait, () => asking.wake(leave));
    else if (asking.isAlive) leave();
    return true;
  }

  return {
    arm: (question, fault, skip, left) => void armed.push({ question, fault, skip, left }),
    armCancel: (fault, left) => void armedCancels.push({ question: 'cancel', fault, skip: 0, left }),
    get outageUntil() {
      return outage.until;
    },
    set outageUntil(until) {
      outage.until = until;
    },
    get refusesUntil() {
      return refusal.until;
    },
    set refusesUntil(until) {
      refusal.until = until;
    },
    dispatcherFor: asking =>
      ({
        dispatch: (options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler) =>
          dispatch(asking, options, handler),
      }) as unknown as Dispatcher,
    met,
  };
}
