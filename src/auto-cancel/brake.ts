import { randomUUID } from 'node:crypto';
import pLimit from 'p-limit';
import { z } from 'zod';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Change } from '../model/change.ts';
import type { JournalEntry } from '../model/journal.ts';
import { type Guard, NO_ACCOUNT, type Store } from '../store/store.ts';
import type { Journal } from './journal.ts';

/** Key of the row that pauses auto-cancel. The transaction of every intent compares its value. */
export const BRAKE = 'auto-cancel/brake';
/** Key prefix of the audit rows, one per pause or resume. They are never deleted. */
const STOPS = 'auto-cancel-stops/';
/** Maximum time between an intent and the sending of its cancel (ms). */
export const SEND_WITHIN = 30_000;

/** Key of the row that an account has while a cancel request may be in flight. */
const SENDING = 'auto-cancel/sending';

export const operatorText = z.string().regex(/\S/, { error: 'must not be blank' });
const brakeRow = z.strictObject({
  state: z.enum(['running', 'paused']),
  id: z.uuid(),
  /** Milliseconds since the Unix epoch. */
  at: z.number(),
  by: operatorText,
  reason: operatorText,
});
type BrakeRow = Readonly<z.infer<typeof brakeRow>>;

const sendingRow = z.object({ sendBy: z.number() });

/** Time (ms since the Unix epoch), operator and reason of a pause. */
export type Pause = Pick<BrakeRow, 'at' | 'by' | 'reason'>;
type StopOrder = Omit<Pause, 'at'>;

/** Returns the parsed row; undefined if it is damaged or has an incompatible version. */
export function parseRow<T>(shape: z.ZodType<T>, value: string | undefined): T | undefined {
  try {
    return shape.safeParse(JSON.parse(value ?? 'null')).data;
  } catch {
    return undefined;
  }
}

export const readBrake = async (store: Pick<Store, 'scan'>) => (await store.scan(NO_ACCOUNT, BRAKE)).get(BRAKE);

/** Returns the pause in a row; undefined if auto-cancel is running. A missing or unreadable row counts as a pause. */
export function pauseOf(value: string | undefined, now: number): Pause | undefined {
  const row = parseRow(brakeRow, value);
  if (row?.state === 'running') return undefined;
  if (row) return { at: row.at, by: row.by, reason: row.reason };
  const wrong = value === undefined ? 'missing' : 'unreadable';
  return { at: now, by: 'unknown', reason: `the row ${BRAKE} in the store is ${wrong}` };
}

/** Returns journal lines of all pauses and resumes, oldest first. */
export async function stopLines(
  store: Pick<Store, 'scan'>,
  now: number,
): Promise<(JournalEntry & { readonly order: string })[]> {
  const rows = [...(await store.scan(NO_ACCOUNT, STOPS))].sort(([a], [b]) => (a < b ? -1 : 1));
  return rows.flatMap(([, text]) => {
    const row = parseRow(brakeRow, text);
    if (!row) return [];
    const { state, id, at, by, reason } = row;
    // Limits count from the latest journal time, so an operator's fast clock must not advance it.
    return [{ at: Math.min(at, now), step: state === 'paused' ? state : 'resumed', by, reason, order: id }];
  });
}

export type Brake = ReturnType<typeof createBrake>;

export function createBrake(store: Store, clock: Pick<Clock, 'now'>, log: Log) {
  let isCreated = false;
  let isKnown = false;
  let value: string | undefined;
  let pause: Pause | undefined;
  let last: string | undefined;
  /** Value of the brake when a journal last contained every pause and resume. */
  const synchronized = new WeakMap<Journal, string | undefined>();

  async function readNow(): Promise<void> {
    try {
      value = await readBrake(store);
      isKnown = true;
    } catch (error) {
      isKnown = false;
      throw error;
    }
    pause = pauseOf(value, pause?.at ?? clock.now());
    const row = parseRow(brakeRow, value);
    if (row && last !== undefined && row.id !== last) {
      const { state, by, reason } = row;
      log.warn({ state, by, reason }, 'an operator paused or resumed auto-cancel');
    }
    last = row?.id ?? last ?? '';
  }

  // Concurrent reads could end in another order, and the older one would win.
  const serially = pLimit(1);
  const load = (): Promise<void> => serially(readNow);

  async function create(journals: readonly Journal[]): Promise<void> {
    const older = journals.flatMap(({ state }) => state.paused ?? [])[0];
    const pause = older ?? { at: clock.now(), by: 'delivery-watch', reason: 'first start of auto-cancel' };
    const row: BrakeRow = { state: older ? 'paused' : 'running', id: randomUUID(), ...pause };
    await store.create(BRAKE, JSON.stringify(row));
    isCreated = true;
  }

  return {
    /** Pause found by the last read; undefined while auto-cancel is running and before the first read. */
    get pause(): Pause | undefined {
      return pause;
    },
    /** Whether the last read succeeded. */
    get isKnown(): boolean {
      return isKnown;
    },
    // No row has the value '', so a guard with this value rejects every intent.
    /** Returns a condition for committing an intent: auto-cancel has not been paused since the last read. */
    guard: (): Guard => ({ account: NO_ACCOUNT, key: BRAKE, value: pause || value === undefined ? '' : value }),
    /** Reads the row. Never rejects: a failed read sets `isKnown` to false. */
    read: (): Promise<void> => load().catch(() => undefined),
    /** Creates a missing row, reads it, and appends missing pauses and resumes to the journals. Rejects with StoreError. */
    async synchronize(journals: readonly Journal[]): Promise<void> {
      if (!isCreated) await create(journals);
      await load();
      const now = value;
      const behind = journals.filter(journal => !synchronized.has(journal) || synchronized.get(journal) !== now);
      if (behind.length === 0) return;
      const lines = await stopLines(store, clock.now());
      const appended = await Promise.allSettled(
        behind.map(async journal => {
          await journal.confirm();
          const missing = lines.filter(({ order }) => !journal.state.orders.has(order));
          if (missing.length > 0) await journal.append(missing);
          synchronized.set(journal, now);
        }),
      );
      for (const result of appended) if (result.status === 'rejected') throw result.reason;
    },
  };
}

/** Returns the row that is written with the intent, and deleted with the response or the end of the action. */
export const sendingUntil = (sendBy: number): Change => ({ key: SENDING, value: JSON.stringify({ sendBy }) });
export const SENDING_ENDED: Change = { key: SENDING, value: null };

const CHECK_EVERY = 100;
/** Age at which a row counts as abandoned (ms). Longer than any expected clock skew. */
const ABANDONED_AFTER = 86_400_000;

/** Returns the changes that pause or resume. Throws a RangeError for a blank operator or reason. */
function changesOf(state: BrakeRow['state'], { by, reason }: StopOrder, at: number): Change[] {
  const row: BrakeRow = { state, id: randomUUID(), at, by, reason };
  const issue = brakeRow.safeParse(row).error?.issues[0];
  if (issue) throw new RangeError([...issue.path, issue.message].join(': '));
  const value = JSON.stringify(row);
  const key = `${STOPS}${String(Math.max(0, Math.trunc(at))).padStart(15, '0')}-${row.id}`;
  return [
    { key: BRAKE, value },
    { key, value },
  ];
}

export interface PauseDeps {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Called once if requests are or may be in flight. */
  waiting(requests: number): void;
}

/**
 * Pauses auto-cancel and waits for requests in flight, at most 30 s. Returns the previous pause, if any. Aborting `signal`
 * ends only the wait. Rejects with StoreError, or with a RangeError for a blank operator or reason.
 */
export async function pauseAutoCancel(
  store: Pick<Store, 'scan' | 'command' | 'valuesOf'>,
  order: StopOrder,
  { clock, signal, waiting }: PauseDeps,
): Promise<Pause | undefined> {
  const now = clock.now();
  const changes = changesOf('paused', order, now);
  const before = await readBrake(store);
  await store.command(changes);
  const end = clock.monotonic() + SEND_WITHIN;

  /** Returns the number of requests in flight; undefined if the store cannot be read. */
  async function inFlight(): Promise<number | undefined> {
    try {
      const rows = [...(await store.valuesOf(SENDING)).values()];
      const sendBy = rows.map(row => parseRow(sendingRow, row)?.sendBy ?? Number.POSITIVE_INFINITY);
      return sendBy.filter(time => time + ABANDONED_AFTER > clock.now()).length;
    } catch {
      return undefined;
    }
  }

  for (let isFirst = true; clock.monotonic() < end; isFirst = false) {
    const requests = await inFlight();
    if (requests === 0) break;
    if (isFirst) waiting(requests ?? 0);
    await clock.sleep(Math.min(CHECK_EVERY, end - clock.monotonic()), signal);
  }
  return before === undefined ? undefined : pauseOf(before, now);
}

/**
 * Ends the pause and returns it; undefined if auto-cancel is not paused. Rejects with StoreError (`guard_failed` after a
 * concurrent change), or with a RangeError for a blank operator or reason.
 */
export async function resumeAutoCancel(
  store: Pick<Store, 'scan' | 'command' | 'create'>,
  order: StopOrder,
  clock: Pick<Clock, 'now'>,
): Promise<Pause | undefined> {
  const now = clock.now();
  const changes = changesOf('running', order, now);
  let value = await readBrake(store);
  const missing = value === undefined && pauseOf(value, now);
  if (missing) {
    // The guard needs an existing row.
    await store.create(BRAKE, JSON.stringify({ state: 'paused', id: randomUUID(), ...missing } satisfies BrakeRow));
    value = await readBrake(store);
  }
  const before = pauseOf(value, now);
  if (!before) return undefined;
  await store.command(changes, { account: NO_ACCOUNT, key: BRAKE, value: value ?? '' });
  return before;
}
