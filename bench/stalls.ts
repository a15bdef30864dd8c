/**
 * `STALLS=FILE node --import ./bench/stalls.ts …` writes the processor times of event loop turns and responses, and the peak
 * memory, to FILE when the process ends.
 */
import { subscribe } from 'node:diagnostics_channel';
import { writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';

/** Processor time in milliseconds; memory in bytes. */
export interface Stalls {
  /** Processor time between two runs of a 1 ms timer: mostly the duration of one event loop turn. */
  readonly turns: readonly number[];
  /** Processor time of this thread between the start of each request and the end of its response. */
  readonly answers: readonly number[];
  /** Peak resident memory. */
  readonly rss: number;
}

/** Initial time that is not measured, in which code is loaded and the first reads run (s). */
const WARM_UP = 10;

const used = () => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};
const file = process.env.STALLS;
if (file !== undefined) {
  const turns: number[] = [];
  const answers: number[] = [];
  let [last, rss] = [used(), 0];
  const watch = setInterval(() => {
    const now = used();
    if (process.uptime() > WARM_UP) turns.push(now - last);
    last = now;
  }, 1).unref();
  setInterval(() => {
    rss = Math.max(rss, process.memoryUsage.rss());
  }, 50).unref();
  const begun = new WeakMap<object, number>();
  subscribe('http.server.request.start', message =>
    begun.set((message as { request: IncomingMessage }).request, used()),
  );
  subscribe('http.server.response.finish', message => {
    const start = begun.get((message as { request: IncomingMessage }).request);
    if (start !== undefined && process.uptime() > WARM_UP) answers.push(used() - start);
  });
  // Do not measure the shutdown.
  process.once('SIGTERM', () => clearInterval(watch));
  // Discard earlier measurements.
  process.on('SIGUSR2', () => {
    turns.length = 0;
    answers.length = 0;
  });
  process.on('exit', () => writeFileSync(file, JSON.stringify({ turns, answers, rss } satisfies Stalls)));
}
