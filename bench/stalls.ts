/** `STALLS=FILE node --import ./bench/stalls.ts …` writes into FILE, when the process ends, what held its main thread, in processor time. */
import { subscribe } from 'node:diagnostics_channel';
import { writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';

/** Milliseconds of processor time; memory in bytes. */
export interface Stalls {
  /** Turns of the event loop, with at most a millisecond of others. */
  readonly turns: readonly number[];
  /** What this thread did between a request and the last byte of its answer. */
  readonly answers: readonly number[];
  /** At its height. */
  readonly rss: number;
}

/** Seconds in which everything is loaded and read for the first time. */
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
  // What it takes to stop holds up nothing.
  process.once('SIGTERM', () => clearInterval(watch));
  // All that was until now is left out.
  process.on('SIGUSR2', () => {
    turns.length = 0;
    answers.length = 0;
  });
  process.on('exit', () => writeFileSync(file, JSON.stringify({ turns, answers, rss } satisfies Stalls)));
}
