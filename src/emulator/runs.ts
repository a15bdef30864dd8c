import { fractionOf, messageId } from './random.ts';

/** A workflow run that has not failed. Failed runs are dead letters. Times in ms since the Unix epoch. */
export interface EmulatedRun {
  readonly workflowRunId: string;
  readonly workflowUrl: string;
  readonly createdAt: number;
  /** Undefined while the run is in progress. */
  readonly completedAt?: number | undefined;
  readonly state?: 'RUN_SUCCESS';
}

interface RunParts {
  readonly seed: number;
  /** Returns the share of runs created at `time` that never end. */
  readonly stuck: (time: number) => number;
}

const RUN_EVERY_MS = 90_000;
const TAKES_MS = 20_000;
/** Share of runs that sleep or wait for an event, and their maximum duration (ms). */
const LONG_SHARE = 0.05;
const LONG_MS = 45 * 60_000;

const URLS = ['signup', 'invoice', 'digest'].map(name => `https://app.example.com/api/workflows/${name}`);

/** Returns the runs created after `from` up to `now`, which depend only on the seed and the time. */
export function runsBetween(from: number, now: number, { seed, stuck }: RunParts): EmulatedRun[] {
  const runs: EmulatedRun[] = [];
  for (let number = Math.floor(from / RUN_EVERY_MS) + 1; number * RUN_EVERY_MS <= now; number++) {
    const draw = (what: string) => fractionOf(seed, `${what} of run ${number}`);
    const createdAt = number * RUN_EVERY_MS;
    const takes = draw('kind') < LONG_SHARE ? LONG_MS * draw('time') : TAKES_MS * (0.1 + draw('time'));
    const completedAt = Math.ceil(createdAt + takes);
    const hasEnded = completedAt <= now && draw('end') >= stuck(createdAt);
    runs.push({
      workflowRunId: `wfr_${messageId(seed, 'r', number).slice(4)}`,
      workflowUrl: URLS[number % URLS.length] as string,
      createdAt,
      ...(hasEnded && { completedAt, state: 'RUN_SUCCESS' }),
    });
  }
  return runs;
}
