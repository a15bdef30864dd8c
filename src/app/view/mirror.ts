import type { Candidate } from '../../http/api/auto-cancel.ts';
import type { Clock } from '../../kit/clock.ts';
import { createTurns } from '../../kit/turns.ts';
import type { Replica, Replicas, Sharing, Store } from '../../store/store.ts';
import { Candidates, decodeTold, KEYS, type Schema, Summary, type Told, Whole } from './summary.ts';

/** What was read of one row: undefined where there is none; `unreadable`: another version wrote it, or it is damaged. */
export type Found<T> = Told<T> | 'unreadable' | undefined;

/** What this process knows of accounts that other replicas hold: from the store, a few seconds old. */
export interface Mirror {
  readonly self: Replica;
  /** Milliseconds. */
  readonly leaseTime: number;
  /** Milliseconds since the Unix epoch by the database's clock; undefined before the first renewal. */
  now(): number | undefined;
  sharing(): Sharing | undefined;
  /** The replica that holds an account; undefined where none does. */
  holderOf(account: string): Replica | undefined;
  /** The same, or the last that did. */
  lastHolderOf(account: string): Replica | undefined;
  /** Milliseconds for which no replica has held the account, as far as this one has seen. */
  unheldFor(account: string): number;
  /** Brings the summaries up to date, at most every few seconds; waits a moment at most. Never rejects. */
  look(): Promise<void>;
  /** The same for all of one account. */
  lookInto(account: string): Promise<void>;
  /** The same for tracked callbacks. */
  lookAtCandidates(): Promise<void>;
  summary(account: string): Found<Summary>;
  whole(account: string): Found<Whole>;
  candidates(account: string): Found<readonly Candidate[]>;
}

/** Milliseconds for which an answer is good enough. */
const FRESH = 5000;
/** Milliseconds for which a request waits for the database: then it is answered from memory. */
const PATIENCE = 1000;
/** Accounts whose whole is kept. */
const MOST_WHOLE = 50;

/**
 * Runs the work at most every few seconds, once at a time. Who asks waits for it, but not for long; where it takes long, who asks
 * later does not wait at all.
 */
function createSeldom(clock: Clock, work: () => Promise<void>): () => Promise<void> {
  let doneAt = Number.NEGATIVE_INFINITY;
  let waiting: Promise<void> | undefined;

  function begin(): Promise<void> {
    const patience = new AbortController();
    const working = work()
      // What is in memory stays; that the database is away is told by what renews the leases.
      .catch(() => undefined)
      .finally(() => {
        doneAt = clock.monotonic();
        waiting = undefined;
        patience.abort();
      });
    return Promise.race([working, clock.sleep(PATIENCE, patience.signal).catch(() => undefined)]);
  }

  return async () => {
    if (!waiting && clock.monotonic() - doneAt < FRESH) return;
    waiting ??= begin();
    await waiting;
  };
}

interface Known<T> {
  readonly text: string;
  readonly found: Found<T>;
}

/** Rows of one key by account. Those that have not changed are not read again; other work gets its turn meanwhile. */
function createRows<T>(key: string, schema: Schema<T>, { clock, store }: MirrorDeps) {
  let known: ReadonlyMap<string, Known<T>> = new Map();
  const look = createSeldom(clock, async () => {
    const turns = createTurns();
    const next = new Map<string, Known<T>>();
    for (const [account, text] of await store.valuesOf(key)) {
      const before = known.get(account);
      next.set(account, before?.text === text ? before : { text, found: decodeTold(schema, text) ?? 'unreadable' });
      await turns.pass();
    }
    known = next;
  });
  return { look, of: (account: string) => known.get(account)?.found };
}

/** All of single accounts, of those that were asked for last. */
function createWholes({ clock, store }: MirrorDeps) {
  const known = new Map<string, { readonly look: () => Promise<void>; found: Found<Whole> }>();
  function entryOf(account: string) {
    const entry = known.get(account) ?? {
      found: undefined,
      look: createSeldom(clock, async () => {
        const text = (await store.scan(account, KEYS.whole)).get(KEYS.whole);
        entry.found = text === undefined ? undefined : (decodeTold(Whole, text) ?? 'unreadable');
      }),
    };
    known.delete(account);
    known.set(account, entry);
    const [oldest] = known.keys();
    if (known.size > MOST_WHOLE && oldest !== undefined) known.delete(oldest);
    return entry;
  }
  return {
    look: (account: string) => entryOf(account).look(),
    of: (account: string) => known.get(account)?.found,
  };
}

export interface MirrorDeps {
  readonly replicas: Replicas;
  readonly store: Pick<Store, 'scan' | 'valuesOf'>;
  readonly clock: Clock;
}

export function createMirror(deps: MirrorDeps): Mirror {
  const { replicas, clock } = deps;
  const summaries = createRows(KEYS.summary, Summary, deps);
  const candidates = createRows(KEYS.candidates, Candidates, deps);
  const wholes = createWholes(deps);
  const lastHolders = new Map<string, Replica>();
  /** Since when an account is seen to have no holder, on the monotonic clock. */
  const unheld = new Map<string, number>();
  let seen: { readonly sharing: Sharing; readonly at: number; readonly byId: ReadonlyMap<string, Replica> } | undefined;

  /** What the last renewal said, and when it was first seen here: the database's clock goes on from there by our own. */
  function current() {
    const sharing = replicas.sharing();
    if (!sharing || seen?.sharing.at === sharing.at) return seen;
    seen = { sharing, at: clock.monotonic(), byId: new Map(sharing.replicas.map(each => [each.id, each])) };
    for (const [account, id] of sharing.holders) {
      const holder = seen.byId.get(id);
      if (holder) lastHolders.set(account, holder);
    }
    return seen;
  }

  function holderOf(account: string): Replica | undefined {
    const now = current();
    const holder = now?.byId.get(now.sharing.holders.get(account) ?? '');
    if (holder) unheld.delete(account);
    else if (!unheld.has(account)) unheld.set(account, clock.monotonic());
    return holder;
  }

  return {
    self: replicas.self,
    leaseTime: replicas.leaseTime,
    now() {
      const now = current();
      return now && now.sharing.at + clock.monotonic() - now.at;
    },
    sharing: () => current()?.sharing,
    holderOf,
    lastHolderOf: account => holderOf(account) ?? lastHolders.get(account),
    unheldFor: account => (holderOf(account) ? 0 : clock.monotonic() - (unheld.get(account) ?? clock.monotonic())),
    look: summaries.look,
    lookInto: account => wholes.look(account),
    lookAtCandidates: candidates.look,
    summary: summaries.of,
    whole: wholes.of,
    candidates: candidates.of,
  };
}
