/** A simulated operating-system process: running, stopped by SIGSTOP, or dead. */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Clock } from '../../src/kit/clock.ts';
import type { Log } from '../../src/kit/log.ts';
import type { Tracer } from '../../src/kit/tracer.ts';
import { START } from './settings.ts';
import { owners, type Time, type TimerOwner } from './time.ts';

export interface ProcessLife extends TimerOwner {
  readonly isAlive: boolean;
  readonly isStopped: boolean;
  /** Resolves immediately if the process runs, or after SIGCONT if it is stopped. Never resolves if it is dead. */
  awake(): Promise<void>;
  /** Stops the process like SIGSTOP. */
  stop(): void;
  /** Continues the process like SIGCONT. */
  proceed(): void;
  /** Kills the process like SIGKILL. */
  kill(): void;
}

export function createProcessLife(): ProcessLife {
  let isAlive = true;
  let waiting: (() => void)[] | undefined;
  const self: ProcessLife = {
    get isAlive() {
      return isAlive;
    },
    get isStopped() {
      return waiting !== undefined;
    },
    wake(run) {
      if (!isAlive) return;
      if (waiting) waiting.push(AsyncLocalStorage.bind(run));
      else owners.run(self, run);
    },
    awake: () => new Promise(resolve => self.wake(resolve)),
    stop() {
      waiting ??= [];
    },
    proceed() {
      const due = waiting ?? [];
      waiting = undefined;
      for (const run of due) self.wake(run);
    },
    kill() {
      isAlive = false;
      waiting = undefined;
    },
  };
  return self;
}

export function createQuietLog(write: (line: string) => void): Log {
  const at = (level: string) => (fields: object, message: string) =>
    write(`${level} ${message} ${JSON.stringify(fields)}`);
  const log: Log = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'), child: () => log };
  return log;
}

export function createQuietTracer(write: (line: string) => void): Tracer {
  return {
    span(name, attributes, work) {
      write(`span ${name} ${Object.values(attributes).join(' ')}`);
      return work({ set: more => write(`span ${Object.values(more).join(' ')}`), fail: write });
    },
  };
}

export function createProcessClock(
  machine: { readonly time: Time; readonly offset: number },
  life: ProcessLife,
): Clock {
  const { time } = machine;
  const startedAt = time.now;
  return {
    now: () => START + time.now + machine.offset,
    monotonic: () => time.now - startedAt,
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        if (signal?.aborted) return reject(signal.reason);
        const onAbort = () => {
          off();
          reject(signal?.reason);
        };
        const off = time.after(ms, () =>
          life.wake(() => {
            signal?.removeEventListener('abort', onAbort);
            if (!signal?.aborted) resolve();
          }),
        );
        signal?.addEventListener('abort', onAbort, { once: true });
      }),
  };
}
