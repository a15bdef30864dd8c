import { Worker } from 'node:worker_threads';
import type { Judged, Judging, JudgingPlan } from './judging.ts';
import type { Answer } from './judging-worker.ts';
import { buffersOf, packPart } from './log-part.ts';

/** The extension is that of this file: of the sources, or of the bundle. */
const WORKER = new URL(`./judging-worker${import.meta.url.slice(-3)}`, import.meta.url);

/** Most of what it makes is garbage after a step; a larger young generation saves no time. */
const LIMITS = { maxYoungGenerationSizeMb: 24, maxOldGenerationSizeMb: 1024 };

/** Parts that wait to be judged at most: each has twenty pages of the log. */
const MOST_WAITING = 3;

/** Judges in a thread of its own. Rejects with what it threw. */
export function judgeInThread(plan: JudgingPlan): Judging {
  const worker = new Worker(WORKER, { workerData: plan, resourceLimits: LIMITS });
  const result = Promise.withResolvers<Judged>();
  // It may fail before its result is asked for: that is no unhandled rejection.
  result.promise.catch(() => undefined);
  let waiting = 0;
  let room = Promise.withResolvers<void>();
  worker.on('error', error => {
    result.reject(error);
    room.reject(error);
  });
  worker.on('message', (answer: Answer) => {
    if (answer !== 'taken') return result.resolve(answer);
    waiting -= 1;
    room.resolve();
  });

  return {
    async take(part) {
      const packed = packPart(part);
      worker.postMessage(packed, buffersOf(packed));
      waiting += 1;
      while (waiting > MOST_WAITING) {
        room = Promise.withResolvers();
        await room.promise;
      }
    },
    end() {
      worker.postMessage('end');
      return result.promise;
    },
    async close() {
      await worker.terminate();
    },
  };
}
