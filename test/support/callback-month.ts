/**
 * A month of failure callbacks with predefined life cycles: attempts, ends or hangs, manual reruns, and removal. Times
 * are in milliseconds since the Unix epoch.
 */
import { createRandom, type Random } from '../../src/emulator/random.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A period in which responses of the service are missing or wrong. */
export interface Incident {
  readonly from: number;
  readonly to: number;
  /** The agent is down; or the service fails, ends its list with an error, lists nothing, or omits entries. */
  readonly kind: 'down' | 'errors' | 'partial' | 'empty' | 'short';
}

/** One message of the callback, from its first attempt to the end of its last. */
export interface Run {
  readonly from: number;
  /** End of the run; infinity if an attempt hangs forever. */
  readonly to: number;
  readonly end: 'SUCCESS' | 'FAIL' | undefined;
  readonly messageId: string;
  /** Event times. */
  readonly events: readonly number[];
}

export interface Callback {
  readonly dlqId: string;
  /** Fields of its row that never change. */
  readonly row: Readonly<Record<string, unknown>>;
  readonly enteredAt: number;
  readonly shape: 'failureCallbackInfo' | 'failureFunctionState';
  readonly reportsMessage: boolean;
  /** Each run starts after the previous one has failed. */
  readonly runs: readonly Run[];
  /** Time when its entry is removed, by an operator or because its retention has passed. */
  readonly leavesAt: number;
  /** Whether its last attempt hangs. */
  readonly isStuck: boolean;
  /** Whether the enforcing rule matches and neither an exception nor another rule does. */
  readonly isMeant: boolean;
}

const RETENTION = 14 * DAY;
/** Maximum duration of an attempt under the service's plan (ms). */
const LONGEST_ATTEMPT = 15 * MINUTE;
const WORKFLOWS = [
  { url: 'https://api.example.com/jobs/nightly', retries: 3 },
  { url: 'https://api.example.com/jobs/invoice', retries: 4 },
  { url: 'https://api.example.com/jobs/report', retries: 5 },
  { url: 'https://api.example.com/jobs/export', retries: 5 },
  { url: 'https://api.example.com/payout', retries: 5 },
] as const;

/** Returns the documented delay: e^(2.5 n) seconds before retry n, at most a day. */
const delayBefore = (retry: number) => Math.min(DAY, Math.exp(2.5 * retry) * 1000);

function attemptLasts(random: Random): number {
  return random.chance(0.25)
    ? random.between(MINUTE, LONGEST_ATTEMPT)
    : Math.min(LONGEST_ATTEMPT, random.exponential(5000));
}

/** Creates a message that starts at `from`. `stuckAt`: number of the attempt (0 is the first) that never ends. */
function course(
  random: Random,
  from: number,
  retries: number,
  fails: number,
  stuckAt: number | undefined,
  messageId: string,
): Run {
  const events: number[] = [];
  let at = from;
  for (let attempt = 0; ; attempt += 1) {
    events.push(Math.floor(at));
    if (attempt === stuckAt) return { from, to: Number.POSITIVE_INFINITY, end: undefined, messageId, events };
    at += attemptLasts(random);
    events.push(Math.floor(at));
    const hasFailed = stuckAt !== undefined || random.chance(fails);
    if (!hasFailed) return { from, to: at, end: 'SUCCESS', messageId, events };
    if (attempt === retries) return { from, to: at, end: 'FAIL', messageId, events };
    at += delayBefore(attempt + 1);
  }
}

/** Returns when an operator reruns a failed callback: minutes to days later, and sometimes during an incident. */
function rerunAt(random: Random, failedAt: number, soonest: number, incidents: readonly Incident[]): number {
  const hidden = incidents.filter(
    ({ from, to }) => to - from > 2 * soonest && to > failedAt + soonest && from < failedAt + 2 * DAY,
  );
  if (hidden.length > 0 && random.chance(0.5)) {
    const { from, to } = random.pick(hidden);
    const earliest = Math.max(from, failedAt + soonest);
    return random.between(Math.floor(earliest), Math.floor(to));
  }
  return failedAt + Math.exp(random.fraction() * Math.log((3 * DAY) / soonest)) * soonest;
}

export interface MonthOptions {
  readonly seed: number;
  readonly callbacks: number;
  readonly start: number;
  readonly end: number;
  readonly incidents: readonly Incident[];
  /**
   * Gap between two walks (ms) that resets tracking. Reruns within such a gap are not generated, because they are
   * undetectable unless the service reports the message.
   */
  readonly maxGap: number;
}

export function createMonth({ seed, callbacks, start, end, incidents, maxGap }: MonthOptions): Callback[] {
  const random = createRandom(seed);
  const made: Callback[] = [];
  for (let number = 0; number < callbacks; number += 1) {
    const { url, retries } = random.pick(WORKFLOWS);
    const reportsMessage = random.chance(0.5);
    const soonest = reportsMessage ? MINUTE : maxGap + 1;
    const fails = random.pick([0.05, 0.05, 0.6, 1]);
    const isStuck = random.chance(0.05);
    const label = random.chance(0.05) ? 'do-not-cancel' : 'nightly';
    const message = (run: number) => `cb_${number}_${run}`;
    let from = random.between(start - DAY, end - HOUR);
    const long = incidents.filter(each => each.to - each.from > HOUR);
    if (fails === 1 && long.length > 0 && random.chance(0.3)) {
      // The first run fails during an incident.
      const { from: hidden, to } = random.pick(long);
      const probe = course(createRandom(number), 0, retries, 1, undefined, '');
      from = random.between(hidden, to) - Math.floor(probe.to);
    }
    const runs: Run[] = [];
    const most = random.chance(0.6) ? random.between(1, 4) : 1;
    const hangsIn = isStuck ? random.between(1, most) : undefined;
    while (runs.length < most) {
      const isLast = runs.length + 1 === hangsIn;
      // All runs before a hanging one fail.
      const share = hangsIn === undefined ? fails : 1;
      const draws = runs.length === 0 && fails === 1 ? createRandom(number) : random;
      const run = course(
        draws,
        from,
        retries,
        share,
        isLast ? random.between(0, retries) : undefined,
        message(runs.length),
      );
      runs.push(run);
      if (run.end !== 'FAIL') break;
      from = rerunAt(random, run.to, soonest, incidents);
    }
    const [first, last] = [runs[0] as Run, runs.at(-1) as Run];
    const enteredAt = Math.floor(first.from);
    const expiresAt = enteredAt + RETENTION;
    const lookedAt =
      last.end === undefined ? last.from + random.exponential(20 * DAY) : last.to + random.exponential(DAY);
    const dlqId = `${enteredAt}-${number}`;
    made.push({
      dlqId,
      enteredAt,
      shape: reportsMessage || random.chance(0.5) ? 'failureCallbackInfo' : 'failureFunctionState',
      reportsMessage,
      runs,
      leavesAt: random.chance(0.85) ? Math.min(expiresAt, lookedAt) : expiresAt,
      isStuck: last.end === undefined,
      isMeant: label === 'nightly' && url.includes('/jobs/'),
      row: {
        dlqId,
        messageId: `msg_${number}`,
        workflowRunId: `wfr_${number}`,
        workflowUrl: url,
        url,
        method: 'POST',
        labels: [label],
        createdAt: enteredAt - random.between(MINUTE, 5 * DAY),
        responseStatus: 500,
        // `maxRetries` belongs to the failed message; the callback may have a different limit.
        ...(random.chance(0.7) && { maxRetries: random.pick([retries, 3]) }),
      },
    });
  }
  return made.sort((a, b) => a.enteredAt - b.enteredAt);
}
