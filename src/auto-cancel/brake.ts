import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Change } from '../model/change.ts';
import type { JournalEntry } from '../model/journal.ts';
import { type Guard, NO_ACCOUNT, type Store } from '../store/store.ts';
import type { Journal } from './journal.ts';

/** The agent-wide row with the state of auto-cancel. The transaction of every intent compares it. */
export const BRAKE = 'auto-cancel/brake';
/** Prefix of the audit record: one row for each pause and resume, written with the brake and never deleted. */
const STOPS = 'auto-cancel-stops/';
/** Milliseconds after its intent in which a cancel may be sent: it goes at once or not at all. */
export const SEND_WITHIN = 30_000;

/** Row of an account while a request to cancel may be in flight. */
const SENDING = 'auto-cancel/sending';

const text = z.string().regex(/\S/, { error: 'must not be blank' });
const brakeRow = z.strictObject({
  state: z.enum(['running', 'paused']),
  id: z.uuid(),
  /** Milliseconds since the Unix epoch. */
  at: z.number(),
  by: text,
  reason: text,
});
type BrakeRow = Readonly<z.infer<typeof brakeRow>>;

const sendingRow = z.object({ sendBy: z.number() });

/** Who paused auto-cancel, when (milliseconds since the Unix epoch) and why. */
export type Pause = Pick<BrakeRow, 'at' | 'by' | 'reason'>;

/** The row's value in its shape; undefined if it is anything else: another version wrote it, or it is damaged. */
export function parseRow<T>(shape: z.ZodType<T>, value: string | undefined): T | undefined {
  try {
    return shape.safeParse(JSON.parse(value ?? 'null')).data;
  } catch {
    return undefined;
  }
}

const readBrake = async (store: Pick<Store, 'scan'>) => (await store.scan(NO_ACCOUNT, BRAKE)).get(BRAKE);

/** A brake that is missing or unreadable counts as a pause. */
function pauseOf(value: string | undefined, now: number): Pause | undefined {
  const row = parseRow(brakeRow, value);
  if (row?.state === 'running') return undefined;
  if (row) return { at: row.at, by: row.by, reason: row.reason };
  const wrong = value === undefined ? 'missing' : 'unreadable';
  return { at: now, by: 'unknown', reason: `the row ${BRAKE} in the store is ${wrong}` };
}

/** Journal lines of all pauses and resumes, the oldest first. `now`: milliseconds since the Unix epoch. Rejects with StoreError. */
export async function linesOfStops(
  store: Pick<Store, 'scan'>,
  now: number,
): Promise<(JournalEntry & { readonly order: string })[]> {
  const rows = [...(await store.scan(NO_ACCOUNT, STOPS))].sort(([a], [b]) => (a < b ? -1 : 1));
  return rows.flatMap(([, text]) => {
    const row = parseRow(brakeRow, text);
    if (!row) return [];
    const { state, id, at, by, reason } = row;
    // The limits of an account count from the latest time in its journal: an operator's clock must not move it ahead.
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
  /** Reads that have begun, and the number of the one that `isKnown`, `value` and `pause` are from: overlapping reads end in any order. */
  let reads = 0;
  let newest = 0;
  /** The brake's value at which the journal got all earlier pauses and resumes. */
  const followed = new WeakMap<Journal, string | undefined>();

  async function load(): Promise<void> {
    reads += 1;
    const number = reads;
    const isOutdated = () => number < newest;
    let found: string | undefined;
    try {
      found = await readBrake(store);
    } catch (error) {
      if (!isOutdated()) [newest, isKnown] = [number, false];
      throw error;
    }
    if (isOutdated()) return;
    [newest, isKnown, value] = [number, true, found];
    pause = pauseOf(value, pause?.at ?? clock.now());
    const row = parseRow(brakeRow, value);
    if (row && last !== undefined && row.id !== last) {
      const { state, by, reason } = row;
      log.warn({ state, by, reason }, 'an operator paused or resumed auto-cancel');
    }
    last = row?.id ?? last ?? '';
  }

  async function create(journals: readonly Journal[]): Promise<void> {
    const older = journals.flatMap(({ state }) => state.paused ?? [])[0];
    const pause = older ?? { at: clock.now(), by: 'delivery-watch', reason: 'first start of auto-cancel' };
    const row: BrakeRow = { state: older ? 'paused' : 'running', id: randomUUID(), ...pause };
    await store.create(BRAKE, JSON.stringify(row));
    isCreated = true;
  }

  return {
    /** The pause that the last read found; undefined while auto-cancel runs, and before the first read. */
    get pause(): Pause | undefined {
      return pause;
    },
    /** Whether the last read that ended succeeded. An older read that ends after a newer one changes nothing. */
    get isKnown(): boolean {
      return isKnown;
    },
    // No row has an empty value, so every intent is refused during a pause.
    /** Guard of an intent: the row of the last read, if auto-cancel runs. */
    guard: (): Guard => ({ account: NO_ACCOUNT, key: BRAKE, value: pause || value === undefined ? '' : value }),
    /** Reads the row. Never rejects: `isKnown` is false if the store cannot be read. */
    read: (): Promise<void> => load().catch(() => undefined),
    /**
     * Creates the row if this process has not done so: running, or paused if a journal from before there was a brake ends with a
     * pause. Then reads it, and appends the pauses and resumes to these journals that they lack. Rejects with StoreError.
     */
    async follow(journals: readonly Journal[]): Promise<void> {
      if (!isCreated) await create(journals);
      await load();
      const now = value;
      const behind = journals.filter(journal => !followed.has(journal) || followed.get(journal) !== now);
      if (behind.length === 0) return;
      const lines = await linesOfStops(store, clock.now());
      const appended = await Promise.allSettled(
        behind.map(async journal => {
          // Lines of a rejected commit may be in the store.
          await journal.confirm();
          const missing = lines.filter(({ order }) => !journal.state.orders.has(order));
          if (missing.length > 0) await journal.append(missing);
          followed.set(journal, now);
        }),
      );
      for (const result of appended) if (result.status === 'rejected') throw result.reason;
    },
  };
}

/** Row that the transaction of an intent writes, and its deletion by the transaction of the response or of the action's end. */
export const sendingUntil = (sendBy: number): Change => ({ key: SENDING, value: JSON.stringify({ sendBy }) });
export const SENDING_ENDED: Change = { key: SENDING, value: null };

/** Milliseconds between two checks for requests in flight. */
const CHECK_EVERY = 100;
/** Age (ms) at which a row is left over from a process that died. Longer than clocks differ or are set forward. */
const LEFT_BEHIND = 86_400_000;

export interface StopOrder {
  readonly by: string;
  readonly reason: string;
}

/** The brake and its audit record. Throws a RangeError for a blank operator or reason. */
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
  /** Called once if the command has to wait for requests in flight. */
  waiting(requests: number): void;
}

/**
 * Pauses auto-cancel and returns the earlier pause. Afterwards no intent without an outcome can be sent: it waits for a
 * request in flight, at most 30 s. Aborting `signal` ends the wait, not the pause, and throws its reason. Rejects with
 * StoreError, or with a RangeError for a blank operator or reason.
 */
export async function pauseAutoCancel(
  store: Pick<Store, 'scan' | 'commit' | 'valuesOf'>,
  order: StopOrder,
  { clock, signal, waiting }: PauseDeps,
): Promise<Pause | undefined> {
  const now = clock.now();
  const changes = changesOf('paused', order, now);
  const before = await readBrake(store);
  await store.commit(NO_ACCOUNT, changes);
  const end = clock.monotonic() + SEND_WITHIN;

  /** Undefined if the store cannot be read: then all of the time has to pass. */
  async function inFlight(): Promise<number | undefined> {
    try {
      const rows = [...(await store.valuesOf(SENDING)).values()];
      const sendBy = rows.map(row => parseRow(sendingRow, row)?.sendBy ?? Number.POSITIVE_INFINITY);
      return sendBy.filter(time => time + LEFT_BEHIND > clock.now()).length;
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
 * Ends the pause and returns it. Writes nothing and returns undefined if auto-cancel is not paused. Rejects with StoreError, `guard_failed` if
 * another operator paused or resumed at the same time, and with a RangeError for a blank operator or reason.
 */
export async function resumeAutoCancel(
  store: Pick<Store, 'scan' | 'commit' | 'create'>,
  order: StopOrder,
  clock: Pick<Clock, 'now'>,
): Promise<Pause | undefined> {
  const now = clock.now();
  const changes = changesOf('running', order, now);
  let value = await readBrake(store);
  const missing = value === undefined && pauseOf(value, now);
  if (missing) {
    // A guard needs a row.
    await store.create(BRAKE, JSON.stringify({ state: 'paused', id: randomUUID(), ...missing } satisfies BrakeRow));
    value = await readBrake(store);
  }
  const before = pauseOf(value, now);
  if (!before) return undefined;
  // No row has an empty value.
  await store.commit(NO_ACCOUNT, changes, { account: NO_ACCOUNT, key: BRAKE, value: value ?? '' });
  return before;
}
