import { parentPort, workerData } from 'node:worker_threads';
import { createJudging, type Judged, type JudgingPlan } from './judging.ts';
import { type PackedPart, unpackPart } from './log-part.ts';

/** Judges off the main thread, which reads and parses meanwhile. Answers each part when it is judged, and the end with the result. */
export type Answer = 'taken' | Judged;

const judging = createJudging(workerData as JudgingPlan);
let last = Promise.resolve();

async function answer(part: PackedPart | 'end'): Promise<void> {
  if (part === 'end') parentPort?.postMessage((await judging.end()) satisfies Answer);
  else {
    for (const slice of unpackPart(part)) await judging.take(slice);
    parentPort?.postMessage('taken' satisfies Answer);
  }
}

parentPort?.on('message', (part: PackedPart | 'end') => {
  last = last.then(() => answer(part));
});
