/** Simulates the service for a month of failure callbacks, without a network. */
import { createRandom } from '../../src/emulator/random.ts';
import type { CancelResponse } from '../../src/model/journal.ts';
import type { DeliveryEvent, DlqEntry } from '../../src/model/message.ts';
import type { Reader, Writer } from '../../src/upstream/api.ts';
import { UpstreamError } from '../../src/upstream/errors.ts';
import type { ListPage } from '../../src/upstream/paginate.ts';
import { toDlqEntry } from '../../src/upstream/wire.ts';
import type { Callback, Incident, Run } from './callback-month.ts';

const PAGE = 100;
const DAY = 86_400_000;
/** Event retention of the service. */
const LOG_RETENTION = 20 * DAY;

/** A received DELETE request. */
export interface Heard {
  readonly at: number;
  readonly callback: Callback;
  /** State of the callback at that time. Only callbacks in state `hangs` may be cancelled. */
  readonly state: 'hangs' | 'healthy' | 'ended' | 'cancelled' | 'left';
}

export interface CallbackService {
  readonly reader: Reader;
  readonly writer: Writer;
  readonly heard: readonly Heard[];
  isCancelled(callback: Callback): boolean;
}

export interface CallbackServiceOptions {
  readonly callbacks: readonly Callback[];
  readonly seed: number;
  now(): number;
  /** Advances time by `ms` and performs a request. Never resolves if the agent is killed at this request. */
  pass<T>(ms: number, work: () => T): Promise<T>;
  incident(): Incident['kind'] | undefined;
}

export function createCallbackService({
  callbacks,
  seed,
  now,
  pass,
  incident,
}: CallbackServiceOptions): CallbackService {
  const random = createRandom(seed + 7);
  /** Times from which callbacks are reported as cancelled. */
  const cancelledAt = new Map<Callback, number>();
  /** Callbacks for which a cancel was lost. Their later cancels are not lost. */
  const unlucky = new Set<Callback>();
  const heard: Heard[] = [];
  const known = new Map<string, Callback>(callbacks.map(callback => [callback.dlqId, callback]));
  const byMessage = new Map(callbacks.map(callback => [callback.row.messageId as string, callback]));
  const messages = new Map(
    callbacks.flatMap(({ row, enteredAt, runs }) => [
      [row.messageId as string, [enteredAt]] as const,
      ...runs.map(({ messageId, events }) => [messageId, events] as const),
    ]),
  );
  const rows = new Map<Callback, { run: Run | undefined; state: string; entry: DlqEntry }>();
  const places = new Map(callbacks.map((callback, index) => [callback, index]));
  const place = (callback: Callback) => places.get(callback) as number;
  /** Callbacks that are currently in the queue, updated as time advances. */
  let listed: Callback[] = [];
  let next = 0;

  const runAt = (callback: Callback) => callback.runs.findLast(({ from }) => from <= now());

  function stateOf(callback: Callback, run: Run | undefined): string {
    if ((cancelledAt.get(callback) ?? Number.POSITIVE_INFINITY) <= now()) return 'CANCELED';
    return run === undefined || now() < run.to ? 'INPROGRESS' : (run.end as string);
  }

  /** Parses a row only if it has changed; most rows of most walks are unchanged. */
  function entryOf(callback: Callback): DlqEntry {
    const { row, shape, reportsMessage } = callback;
    const run = runAt(callback);
    const state = stateOf(callback, run);
    const before = rows.get(callback);
    if (before?.run === run && before?.state === state) return before.entry;
    const reported = `CALLBACK_${state}`;
    const info = { state: reported, ...(reportsMessage && { messageId: run?.messageId }) };
    const fields = { ...row, [shape]: shape === 'failureFunctionState' ? reported : info };
    const entry = toDlqEntry(fields, now()) as DlqEntry;
    rows.set(callback, { run, state, entry });
    return entry;
  }

  function current(): readonly Callback[] {
    for (; next < callbacks.length; next += 1) {
      const callback = callbacks[next] as Callback;
      if (callback.enteredAt > now()) break;
      listed.push(callback);
    }
    if (listed.some(({ leavesAt }) => leavesAt <= now())) listed = listed.filter(({ leavesAt }) => leavesAt > now());
    return listed;
  }

  const failed = () => new UpstreamError('server', 'GET: 503', { status: 503 });

  async function* dlqPages(query: {
    messageId?: unknown;
    source?: string | undefined;
  }): AsyncGenerator<ListPage<DlqEntry>, void> {
    const asked = byMessage.get(String(query.messageId));
    const lists = (all: readonly Callback[]) =>
      query.messageId === undefined ? all : all.filter(each => each === asked);
    // Continues after the last listed entry, so additions and removals between pages do not shift rows.
    let after = -1;
    for (let isLast = false, page = 0; !isLast; page += 1) {
      yield await pass(50, () => {
        const kind = incident();
        if (kind === 'errors' || (kind === 'partial' && (page > 0 || query.source))) throw failed();
        const all = kind === 'empty' ? [] : lists(current());
        const left = page === 0 ? all : all.filter(each => place(each) > after);
        const shown = left.slice(0, kind === 'short' ? PAGE / 2 : PAGE);
        isLast = kind === 'short' || shown.length === left.length;
        const last = shown.at(-1);
        if (last) after = place(last);
        return { rows: shown.map(entryOf), rejected: 0, incomplete: 0, isLast };
      });
    }
  }

  async function* eventPages({
    messageId = '',
  }: {
    messageId?: string;
  }): AsyncGenerator<ListPage<DeliveryEvent>, void> {
    yield await pass(50, () => {
      if (incident() === 'errors') throw failed();
      const times = (messages.get(messageId) ?? []).filter(time => time <= now() && time > now() - LOG_RETENTION);
      return {
        rows: times.map(time => ({ messageId, state: 'active' as const, time })),
        rejected: 0,
        incomplete: 0,
        isLast: true,
      };
    });
  }

  function hear(callback: Callback): Heard['state'] {
    const isCancelled = cancelledAt.has(callback);
    const state = () => {
      if (callback.leavesAt <= now()) return 'left';
      if (isCancelled) return 'cancelled';
      const run = runAt(callback);
      if (run === undefined || now() >= run.to) return 'ended';
      return run.end === undefined ? 'hangs' : 'healthy';
    };
    heard.push({ at: now(), callback, state: state() });
    return state();
  }

  function answer(id: string): CancelResponse {
    const callback = known.get(id);
    if (!callback) throw new Error(`a DELETE of the unknown dead letter ${id}`);
    if (incident() === 'errors' && random.chance(0.5)) return { kind: 'not_sent', why: 'no connection' };
    const luck = random.fraction();
    if (luck < 0.05) return { kind: 'limited', status: 429, retryAfter: 1000 };
    const isLost = luck < 0.15 && !unlucky.has(callback);
    const state = hear(callback);
    if (isLost) unlucky.add(callback);
    else if (state === 'hangs' || state === 'healthy') cancelledAt.set(callback, now() + random.between(0, 40_000));
    if (isLost || luck < 0.3) return { kind: 'unknown', status: random.pick([500, 502, undefined]) };
    if (state === 'left') return { kind: 'missing', status: 404 };
    if (state === 'ended' || state === 'cancelled') return { kind: 'refused', status: 400 };
    return { kind: 'accepted', status: random.pick([302, 302, 200, 202, 204]) };
  }

  const unused = () => Promise.reject(new Error('not used in these tests'));
  return {
    reader: {
      dlqPages,
      eventPages,
      async *runPages() {
        yield await Promise.reject(new UpstreamError('not_found', 'GET: 404', { status: 404 }));
      },
      flowControl: unused,
      flowControlKey: unused,
      globalParallelism: unused,
      schedules: unused,
      queues: unused,
      account: unused,
    },
    writer: {
      cancel: (id, _signal, stop) =>
        pass(200, () => {
          const why = stop();
          return why === undefined ? answer(id) : { kind: 'not_sent', why };
        }),
    },
    heard,
    isCancelled: callback => cancelledAt.has(callback),
  };
}
