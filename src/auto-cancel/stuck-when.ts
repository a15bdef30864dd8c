import { z } from 'zod';
import { Duration, formatDuration } from '../kit/duration.ts';
import { intOption } from '../kit/option.ts';
import { retryWindow, STUCK_DEFAULTS } from '../model/callback.ts';

/** Formats a duration as a setting, rounded up: `33m`. */
function roundedUp(ms: number): string {
  const [size, unit] = ms < 120_000 ? [1000, 's'] : ms < 7_200_000 ? [60_000, 'm'] : [3_600_000, 'h'];
  return `${Math.ceil(ms / size)}${unit}`;
}

export const stuckWhen = z
  .strictObject({
    inProgressFor: Duration.optional().describe(
      `For \`reported\`: minimum time from the first to the last walk that found the callback in progress. It must cover all assumed retries. Default: ${STUCK_DEFAULTS.inProgressFor / 3_600_000}h.`,
    ),
    seenFor: Duration.optional().describe(
      'Required for `blind`: minimum time from the first to the last walk that listed the entry. It must cover all assumed retries.',
    ),
    snapshots: z.int().min(1).optional().describe('Minimum number of walks that have found the callback.'),
    maxGap: Duration.optional().describe(
      'Maximum time between two consecutive walks that found the callback. The shortest `maxGap` of an account’s rules applies. At least two walks start within this time. Default: 30m, or three times `rescanEvery` if that is longer.',
    ),
    pastRetryWindow: z
      .number()
      .min(1)
      .max(100)
      .default(STUCK_DEFAULTS.pastRetryWindow)
      .describe(
        'Minimum time in progress, as a multiple of the longest time that all attempts and the delays between them may take.',
      ),
    assumeMaxRetries: intOption({ min: 0, max: 100, otherwise: STUCK_DEFAULTS.assumeMaxRetries }).describe(
      'Assumed number of retries. If the service reports a higher number, that number applies.',
    ),
    assumeTimeout: Duration.prefault(formatDuration(STUCK_DEFAULTS.assumeTimeout)).describe(
      'Assumed maximum duration of an attempt.',
    ),
    idleFor: Duration.optional().describe('Minimum time without an event of the message or of its callback.'),
  })
  .superRefine((stuckWhen, context) => {
    const { assumeMaxRetries, assumeTimeout, seenFor, inProgressFor } = stuckWhen;
    const floor = retryWindow(assumeMaxRetries, assumeTimeout);
    const key = seenFor === undefined ? 'inProgressFor' : 'seenFor';
    const configured = seenFor ?? inProgressFor ?? STUCK_DEFAULTS.inProgressFor;
    if (configured < floor) {
      context.addIssue({
        code: 'custom',
        path: [key],
        message: `is ${formatDuration(configured)} and must be at least ${roundedUp(floor)}: ${assumeMaxRetries} retries (assumeMaxRetries) with attempts of ${formatDuration(assumeTimeout)} (assumeTimeout) may take that long, and a callback with retries left is healthy`,
      });
    }
  });

/** Returns the key and value (ms) of a rule's minimum time. */
export function minimumSpan(rule: { readonly evidence: string; readonly stuckWhen: z.output<typeof stuckWhen> }) {
  return rule.evidence === 'blind'
    ? ({ key: 'seenFor', ms: rule.stuckWhen.seenFor ?? Number.POSITIVE_INFINITY } as const)
    : ({ key: 'inProgressFor', ms: rule.stuckWhen.inProgressFor ?? STUCK_DEFAULTS.inProgressFor } as const);
}

type RulesWithGap = readonly { readonly stuckWhen: { readonly maxGap?: number | undefined } }[];

const shortestGap = (rules: RulesWithGap) =>
  Math.min(...rules.map(({ stuckWhen }) => stuckWhen.maxGap ?? Number.POSITIVE_INFINITY));

/**
 * Returns the maximum gap between walks within an episode (ms): the smallest `maxGap` of the rules. If no rule sets it, the
 * maximum is half an hour or three walk intervals, whichever is longer.
 */
export function allowedGap(rules: RulesWithGap, rescanEvery: number): number {
  const named = shortestGap(rules);
  return Number.isFinite(named) ? named : Math.max(30 * 60_000, 3 * rescanEvery);
}

/** Returns the interval between complete walks (ms), at most half of the shortest `maxGap`. */
export function walkEvery(rules: RulesWithGap, rescanEvery: number): number {
  return Math.min(rescanEvery, shortestGap(rules) / 2);
}
