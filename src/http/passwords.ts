import { createHmac, randomBytes } from 'node:crypto';
import pLimit, { type LimitFunction } from 'p-limit';
import type { Tinypool } from 'tinypool';
import { BoundedMap } from '../kit/bounded-map.ts';
import { type Clock, withDeadline } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Secret } from '../kit/secret.ts';
import type { PasswordCheck } from './password-worker.ts';

/** `full`: too many queued checks; `crowded`: too many from the same client. */
export type PasswordResult = 'right' | 'wrong' | 'full' | 'crowded';

export interface Credentials {
  readonly user: string;
  readonly password: string;
}

export type Passwords = ReturnType<typeof createPasswords>;

/** Maximum number of queued checks, in total and per client. */
const MAX_WAITING = 256;
const MAX_PER_CLIENT = 16;
/** Maximum number of cached passwords. */
const MAX_CACHED = 1000;
/** Idle time after which the thread ends (ms). */
const IDLE = 10_000;

// URL of the thread's file, which is next to this file in src and in dist.
const WORKER = new URL(`./password-worker${import.meta.url.slice(-3)}`, import.meta.url);

/** Name of the function that the thread runs. */
const CHECK = 'checkPassword' satisfies keyof typeof import('./password-worker.ts');

/** Timeouts of a check in the queue and of its comparison (ms). The costliest allowed hash takes about 3 s. */
const [WAIT_WITHIN, COMPARE_WITHIN] = [15_000, 15_000];

/** Compares passwords in one thread, which starts with the first check and ends when it is idle. */
function createComparer(log: Log, worker: URL, within: number) {
  let starting: Promise<Tinypool> | undefined;
  /** Aborts the comparison in progress. */
  let failure = new AbortController();
  let isFailing = false;
  let isClosed = false;

  async function open(): Promise<Tinypool> {
    // Loaded here, because most agents have no passwords.
    const { Tinypool } = await import('tinypool');
    const pool = new Tinypool({
      filename: worker,
      minThreads: 0,
      maxThreads: 1,
      idleTimeout: IDLE,
      resourceLimits: { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 2 },
    });
    // A thread that fails to start only emits this event. Without this handler, its check would wait for the deadline.
    pool.on('error', error => failure.abort(error));
    return pool;
  }

  function failed(error: unknown): void {
    if (isFailing || isClosed) return;
    isFailing = true;
    const message = error instanceof Error ? error.message : String(error);
    log.error({ error: message }, 'the thread that checks passwords failed; requests get 503');
  }

  return {
    /** Rejects if the thread fails. The next comparison then starts another one. */
    async compare(check: PasswordCheck): Promise<boolean> {
      if (isClosed) throw new Error('closed');
      try {
        starting ??= open();
        const pool = await starting;
        failure = new AbortController();
        const isRight = await withDeadline(within, failure.signal, signal =>
          pool.run(check, { name: CHECK, signal }).catch(error => {
            throw signal.aborted ? signal.reason : error;
          }),
        );
        if (isFailing) log.info({}, 'passwords are checked again');
        isFailing = false;
        return isRight;
      } catch (error) {
        failed(error);
        throw error;
      }
    },
    async close(): Promise<void> {
      isClosed = true;
      await (await starting)?.destroy();
    },
  };
}

/**
 * Creates a queue that runs work sequentially and alternates between clients, so that a client that guesses passwords does
 * not delay others.
 */
function createFairQueue() {
  const clients = new Map<string, { readonly serially: LimitFunction; open: number }>();
  const inTurn = pLimit(1);
  let open = 0;
  return <T>(client: string, work: () => Promise<T>): Promise<T> | 'full' | 'crowded' => {
    const own = clients.get(client) ?? { serially: pLimit(1), open: 0 };
    // One check is in progress, the others wait.
    if (own.open > MAX_PER_CLIENT) return 'crowded';
    if (open > MAX_WAITING) return 'full';
    own.open += 1;
    open += 1;
    clients.set(client, own);
    return own
      .serially(() => inTurn(work))
      .finally(() => {
        own.open -= 1;
        open -= 1;
        if (own.open === 0) clients.delete(client);
      });
  };
}

/** Checks passwords against bcrypt hashes. Caches correct passwords, so that their next checks never wait. */
export function createPasswords(clock: Clock, log: Log, worker = WORKER, compareWithin = COMPARE_WITHIN) {
  const comparer = createComparer(log, worker, compareWithin);
  const queue = createFairQueue();
  const secret = randomBytes(32);
  const known = new BoundedMap<string, true>(MAX_CACHED);
  const pending = new Map<string, Promise<PasswordResult>>();
  const digest = (...parts: string[]) => createHmac('sha256', secret).update(JSON.stringify(parts)).digest('base64');

  /** Returns a hash for an unknown user, so that the check takes as long as for a known user. */
  function decoyHash(users: ReadonlyMap<string, Secret>, user: string): Secret | undefined {
    const hashes = [...users.values()];
    return hashes[createHmac('sha256', secret).update(user).digest().readUInt32LE() % hashes.length];
  }

  return {
    /**
     * Returns whether the password is correct. Checks of one `client` share a queue. Rejects if the comparison fails or
     * takes too long.
     */
    check(
      users: ReadonlyMap<string, Secret>,
      { user, password }: Credentials,
      client: string,
    ): PasswordResult | Promise<PasswordResult> {
      const own = users.get(user);
      const hash = (own ?? decoyHash(users, user))?.reveal();
      if (hash === undefined) return 'wrong';
      const key = digest(user, hash, password);
      if (own && known.has(key)) return 'right';
      const same = pending.get(key);
      if (same) return same;
      const since = clock.monotonic();
      const added = queue(client, async () => {
        if (clock.monotonic() - since > WAIT_WITHIN) throw new Error('too many checks');
        return comparer.compare({ password, hash });
      });
      if (typeof added === 'string') return added;
      const verdict = added.then((isRight): PasswordResult => {
        if (!isRight || !own) return 'wrong';
        known.set(key, true);
        return 'right';
      });
      pending.set(key, verdict);
      const over = () => pending.delete(key);
      verdict.then(over, over);
      return verdict;
    },
    close: comparer.close,
  };
}
