import { createHmac, randomBytes } from 'node:crypto';
import { Worker } from 'node:worker_threads';
import { BoundedMap } from '../kit/bounded-map.ts';
import type { Clock } from '../kit/clock.ts';
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

/** Timeouts of a check in the queue and of its comparison (ms). The costliest allowed hash takes about 3 s. */
const [WAIT_WITHIN, COMPARE_WITHIN] = [15_000, 15_000];

export type PasswordThread = Pick<Worker, 'on' | 'postMessage' | 'terminate'>;

const startThread = (): PasswordThread =>
  new Worker(WORKER, { resourceLimits: { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 2 } });

interface Check extends PasswordCheck {
  /** Time of the request (monotonic). */
  readonly since: number;
  readonly done: (isRight: boolean) => void;
  readonly fail: (error: Error) => void;
}

/**
 * Runs checks sequentially in a thread, alternating between clients. If the thread fails, its check is rejected and the next
 * check starts another thread.
 */
class Checker {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #startThread: () => PasswordThread;
  readonly #queues = new Map<string, Check[]>();
  #waiting = 0;
  #thread: PasswordThread | undefined;
  #current: Check | undefined;
  #timer = new AbortController();
  #isFailing = false;

  constructor(clock: Clock, log: Log, startThread: () => PasswordThread) {
    this.#clock = clock;
    this.#log = log;
    this.#startThread = startThread;
  }

  add(question: PasswordCheck, client: string): Promise<boolean> | 'full' | 'crowded' {
    const queue = this.#queues.get(client) ?? [];
    if (queue.length >= MAX_PER_CLIENT) return 'crowded';
    if (this.#waiting >= MAX_WAITING) return 'full';
    const since = this.#clock.monotonic();
    const isRight = new Promise<boolean>((done, fail) => queue.push({ ...question, since, done, fail }));
    this.#queues.set(client, queue);
    this.#waiting += 1;
    if (!this.#current) this.#next();
    return isRight;
  }

  async close(): Promise<void> {
    this.#timer.abort();
    const error = new Error('closed');
    this.#failWaiting(Number.POSITIVE_INFINITY, error);
    this.#current?.fail(error);
    await this.#end();
  }

  #after(ms: number, work: () => void): void {
    this.#timer.abort();
    this.#timer = new AbortController();
    this.#clock.sleep(ms, this.#timer.signal).then(work, () => undefined);
  }

  async #end(): Promise<void> {
    const ended = this.#thread;
    this.#thread = undefined;
    await ended?.terminate();
  }

  #failed(error: Error): void {
    const message = 'the thread that checks passwords failed; requests get 503';
    if (!this.#isFailing) this.#log.error({ error: error.message }, message);
    this.#isFailing = true;
    void this.#end();
    this.#current?.fail(error);
    this.#next();
  }

  #start(): PasswordThread {
    const started = this.#startThread();
    const unlessReplaced = (work: () => void) => {
      if (this.#thread === started) work();
    };
    started.on('message', (isRight: boolean) => unlessReplaced(() => this.#answered(isRight)));
    started.on('error', (error: Error) => unlessReplaced(() => this.#failed(error)));
    started.on('exit', () => unlessReplaced(() => this.#failed(new Error('it has exited'))));
    return started;
  }

  #answered(isRight: boolean): void {
    if (this.#isFailing) this.#log.info({}, 'passwords are checked again');
    this.#isFailing = false;
    this.#current?.done(isRight);
    this.#next();
  }

  /** Rejects waiting checks that were added before `time`. Each queue starts with its oldest check. */
  #failWaiting(time: number, error: Error): void {
    for (const [client, queue] of this.#queues) {
      for (; queue[0] && queue[0].since < time; this.#waiting -= 1) queue.shift()?.fail(error);
      if (queue.length === 0) this.#queues.delete(client);
    }
  }

  #next(): void {
    this.#current = undefined;
    this.#failWaiting(this.#clock.monotonic() - WAIT_WITHIN, new Error('too many checks'));
    const [first] = this.#queues;
    if (!first) {
      this.#after(IDLE, () => this.#end());
      return;
    }
    const [client, queue] = first;
    this.#queues.delete(client);
    const check = queue.shift();
    // Queue the client last, so that a client that guesses passwords does not delay others.
    if (queue.length > 0) this.#queues.set(client, queue);
    if (check) this.#run(check);
  }

  #run(check: Check): void {
    this.#waiting -= 1;
    this.#current = check;
    try {
      this.#thread ??= this.#start();
    } catch (error) {
      // Another attempt would fail, too.
      this.#failWaiting(Number.POSITIVE_INFINITY, error as Error);
      this.#failed(error as Error);
      return;
    }
    this.#after(COMPARE_WITHIN, () => this.#failed(new Error(`no result within ${COMPARE_WITHIN / 1000} s`)));
    this.#thread.postMessage({ password: check.password, hash: check.hash } satisfies PasswordCheck);
  }
}

/** Checks passwords against bcrypt hashes. Caches correct passwords, so that clients that use them never wait for others. */
export function createPasswords(clock: Clock, log: Log, start = startThread) {
  const checker = new Checker(clock, log, start);
  const secret = randomBytes(32);
  const known = new BoundedMap<string, true>(MAX_CACHED);
  const pending = new Map<string, Promise<PasswordResult>>();
  const digest = (...parts: string[]) => createHmac('sha256', secret).update(JSON.stringify(parts)).digest('base64');

  /** Returns a hash for an unknown user, so that the check takes as long as for a known one. */
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
      const added = checker.add({ password, hash }, client);
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
    close: () => checker.close(),
  };
}
