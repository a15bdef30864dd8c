import { createHmac, randomBytes } from 'node:crypto';
import { Worker } from 'node:worker_threads';
import { BoundedMap } from '../kit/bounded-map.ts';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Secret } from '../kit/secret.ts';
import type { Question } from './password-worker.ts';

/** `full`: too many wait for a check, `crowded`: too many of the same client. */
export type Verdict = 'right' | 'wrong' | 'full' | 'crowded';

export interface Credentials {
  readonly user: string;
  readonly password: string;
}

export interface Passwords {
  /** Whether the password is the user's. `client`: whose checks share a queue. */
  check(users: ReadonlyMap<string, Secret>, given: Credentials, client: string): Verdict | Promise<Verdict>;
  close(): Promise<void>;
}

/** Checks that wait: of all clients, and of one. */
const MOST_WAITING = 256;
const MOST_OF_ONE = 16;
/** Right passwords that are remembered. */
const MOST_KNOWN = 1000;
/** Milliseconds without a check after which the thread ends: right passwords are known by then. */
const IDLE = 10_000;

// Beside this file, whether it runs from source or from dist.
const WORKER = new URL(`./password-worker${import.meta.url.slice(-3)}`, import.meta.url);

interface Check extends Question {
  readonly done: (isRight: boolean) => void;
  readonly fail: (error: Error) => void;
}

/** Does one check after the other, the clients in turn, in a thread that lives as long as there are any. */
function createChecker(clock: Clock, log: Log) {
  /** By client. */
  const queues = new Map<string, Check[]>();
  let waiting = 0;
  let thread: Worker | undefined;
  let current: Check | undefined;
  let idle = new AbortController();

  function end(): Promise<unknown> {
    const ended = thread;
    thread = undefined;
    return ended?.terminate() ?? Promise.resolve();
  }

  function start(): Worker {
    const worker = new Worker(WORKER, { resourceLimits: { maxOldGenerationSizeMb: 32, maxYoungGenerationSizeMb: 2 } });
    worker.on('message', (isRight: boolean) => {
      current?.done(isRight);
      next();
    });
    worker.on('error', error => {
      log.error({ error: error.message }, 'the thread that checks passwords failed; the next check starts another');
      if (thread === worker) thread = undefined;
      current?.fail(error);
      next();
    });
    return worker;
  }

  function next(): void {
    current = undefined;
    const [first] = queues;
    if (!first) {
      idle = new AbortController();
      clock.sleep(IDLE, idle.signal).then(end, () => undefined);
      return;
    }
    const [client, queue] = first;
    current = queue.shift();
    waiting -= 1;
    queues.delete(client);
    // Behind all others: a client that guesses passwords does not hold up the rest.
    if (queue.length > 0) queues.set(client, queue);
    thread ??= start();
    if (current) thread.postMessage({ password: current.password, hash: current.hash } satisfies Question);
  }

  return {
    add(question: Question, client: string): Promise<boolean> | 'full' | 'crowded' {
      const queue = queues.get(client) ?? [];
      if (queue.length >= MOST_OF_ONE) return 'crowded';
      if (waiting >= MOST_WAITING) return 'full';
      const isRight = new Promise<boolean>((done, fail) => queue.push({ ...question, done, fail }));
      queues.set(client, queue);
      waiting += 1;
      idle.abort();
      if (!current) next();
      return isRight;
    },
    async close() {
      idle.abort();
      queues.clear();
      await end();
    },
  };
}

/**
 * Checks passwords against bcrypt hashes. What was right once is known by a keyed hash, so that a client that comes again never
 * waits for the checks of others.
 */
export function createPasswords(clock: Clock, log: Log): Passwords {
  const checker = createChecker(clock, log);
  const secret = randomBytes(32);
  const known = new BoundedMap<string, true>(MOST_KNOWN);
  const underWay = new Map<string, Promise<Verdict>>();
  const digest = (...parts: string[]) => createHmac('sha256', secret).update(JSON.stringify(parts)).digest('base64');

  /** The hash of any user, the same one each time: an unknown user's check takes as long as that of a known one. */
  function standIn(users: ReadonlyMap<string, Secret>, user: string): Secret | undefined {
    const hashes = [...users.values()];
    return hashes[createHmac('sha256', secret).update(user).digest().readUInt32LE() % hashes.length];
  }

  return {
    check(users, { user, password }, client) {
      const own = users.get(user);
      const hash = (own ?? standIn(users, user))?.reveal();
      if (hash === undefined) return 'wrong';
      const key = digest(user, hash, password);
      if (own && known.has(key)) return 'right';
      const same = underWay.get(key);
      if (same) return same;
      const asked = checker.add({ password, hash }, client);
      if (typeof asked === 'string') return asked;
      const verdict = asked.then((isRight): Verdict => {
        if (!isRight || !own) return 'wrong';
        known.set(key, true);
        return 'right';
      });
      underWay.set(key, verdict);
      const over = () => underWay.delete(key);
      verdict.then(over, over);
      return verdict;
    },
    close: checker.close,
  };
}
