import { z } from 'zod';
import { Duration, formatDuration } from '../kit/duration.ts';
import { createPattern, faultOfPattern } from './pattern.ts';
import { retryWindow } from './retry-window.ts';

/** What a rule of reported callbacks asks where it does not say. */
const DEFAULT_IN_PROGRESS = '48h';

const ALTERNATIVES = 'must name at least one of in, prefix, matches';

/** Ways in which one text may match: any of them is enough. */
function alternatives<T extends z.ZodType<string>>(text: T) {
  const list = z.array(text).min(1, { error: 'must not be empty' });
  return z
    .strictObject({
      in: list.optional().describe('It is one of these.'),
      prefix: list.optional().describe('It begins with one of these.'),
      matches: z
        .string()
        .min(1)
        .transform((pattern, context) => {
          const message = faultOfPattern(pattern);
          if (message === undefined) return createPattern(pattern);
          context.addIssue({ code: 'custom', message });
          return z.NEVER;
        })
        .optional()
        .describe(
          'The whole of it matches this regular expression: the dialect of Prometheus (RE2), `.` matches line breaks.',
        ),
    })
    .refine(ways => Object.values(ways).some(way => way !== undefined), { error: ALTERNATIVES });
}

export type Alternatives = z.output<ReturnType<typeof alternatives<z.ZodString>>>;

const text = alternatives(z.string().min(1));
const WHOLE = 'must be a whole number';
/** Numbers are compared as they are written. */
const digits = z
  .union([z.int().min(0), z.string().regex(/^\d+$/, { error: WHOLE })], { error: WHOLE })
  .transform(String);

const conditions = z.strictObject({
  url: text.optional().describe('Address that the message was sent to: any of these ways is enough.'),
  workflowUrl: text.optional().describe('As `url`: address of the workflow.'),
  label: text.optional().describe('As `url`: any of the labels.'),
  queue: text.optional().describe('As `url`: queue.'),
  topic: text.optional().describe('As `url`: topic (URL group).'),
  schedule: text.optional().describe('As `url`: schedule.'),
  flowControlKey: text.optional().describe('As `url`: flow-control key.'),
  responseStatus: alternatives(digits)
    .optional()
    .describe('As `url`: digits of the last status, such as `{ in: [500, 503] }` or `{ prefix: [5] }`.'),
});

export type Conditions = z.output<typeof conditions>;
export const CONDITION_KEYS = Object.keys(conditions.shape) as (keyof Conditions)[];

const NO_MATCH = `must name at least one of ${CONDITION_KEYS.join(', ')}: an empty match would be everything`;

/** A duration for people, rounded up: `32.9 min`, `30.7 h`. */
function roundedUp(ms: number): string {
  const [size, unit] = ms < 120_000 ? [1000, 's'] : ms < 7_200_000 ? [60_000, 'min'] : [3_600_000, 'h'];
  return `${Math.ceil((ms / size) * 10) / 10} ${unit}`;
}

const stuckWhen = z
  .strictObject({
    inProgressFor: Duration.optional().describe(
      `\`reported\`: complete walks have seen it in progress for at least so long, without a gap. Default: ${DEFAULT_IN_PROGRESS}. Not below what \`assumeMaxRetries\` and \`assumeTimeout\` allow a healthy callback.`,
    ),
    seenFor: Duration.optional().describe(
      '`blind`, which needs it: complete walks have listed it for at least so long, without a gap. Not below what `assumeMaxRetries` and `assumeTimeout` allow a healthy callback.',
    ),
    snapshots: z.int().min(1).optional().describe('At least so many complete walks have seen it.'),
    maxGap: Duration.optional().describe(
      'No two of these walks are further apart. Default: 30m or three times `rescanEvery`, the longer. The shortest of an account’s rules holds for all of them, and the queue is walked at least twice in it.',
    ),
    pastRetryWindow: z
      .number()
      .min(1)
      .max(100)
      .default(1.5)
      .describe('Seen for longer than so many times what all retries and attempts may take.'),
    assumeMaxRetries: z
      .int()
      .min(0)
      .max(100)
      .default(5)
      .describe('Retries that a callback may have. More count where the service reports more, fewer never.'),
    assumeTimeout: Duration.prefault('15m').describe('Longest time that one attempt of the callback may take.'),
    idleFor: Duration.optional().describe(
      'The event log is silent for at least so long about the message and its callback.',
    ),
  })
  .superRefine((stuckWhen, context) => {
    const { assumeMaxRetries, assumeTimeout, seenFor, inProgressFor } = stuckWhen;
    const floor = retryWindow(assumeMaxRetries, assumeTimeout);
    const key = seenFor === undefined ? 'inProgressFor' : 'seenFor';
    const asked = seenFor ?? inProgressFor ?? defaultInProgress;
    if (asked < floor) {
      context.addIssue({
        code: 'custom',
        path: [key],
        message: `is ${formatDuration(asked)} and must be at least ${roundedUp(floor)}: ${assumeMaxRetries} retries (assumeMaxRetries) with attempts of ${formatDuration(assumeTimeout)} (assumeTimeout) may take so long, and a callback that is retried is healthy`,
      });
    }
  });

const defaultInProgress = Duration.parse(DEFAULT_IN_PROGRESS);

const judgingShape = z.strictObject({
  match: conditions
    .refine(match => Object.values(match).some(way => way !== undefined), { error: NO_MATCH })
    .describe('What the rule is about: every key must match. An entry that lacks a field is left alone.'),
  except: conditions
    .prefault({})
    .describe('As `match`: what is left alone. Any key is enough, and an entry that lacks a field is left alone, too.'),
  evidence: z
    .enum(['reported', 'blind'], { error: 'must be reported or blind' })
    .default('reported')
    .describe(
      '`reported`: the service says that the failure callback is in progress. `blind`: it says nothing, and time alone counts.',
    ),
  acceptUnverified: z
    .boolean()
    .default(false)
    .describe('With `blind`: acting without knowing whether a callback is in progress is accepted.'),
  stuckWhen: stuckWhen.prefault({}).describe('When it is stuck: all of these.'),
});

/** Each evidence has a time of its own. Part of `judgingRule`, for those who extend its shape. */
export function checkEvidence(
  { evidence, stuckWhen }: Pick<z.output<typeof judgingShape>, 'evidence' | 'stuckWhen'>,
  context: z.RefinementCtx,
): void {
  const [needed, other] =
    evidence === 'blind' ? (['seenFor', 'inProgressFor'] as const) : (['inProgressFor', 'seenFor'] as const);
  if (stuckWhen[other] !== undefined) {
    context.addIssue({
      code: 'custom',
      path: ['stuckWhen', other],
      message: `is not for evidence: ${evidence}, which takes ${needed}`,
    });
  } else if (evidence === 'blind' && stuckWhen.seenFor === undefined) {
    context.addIssue({ code: 'custom', path: ['stuckWhen', 'seenFor'], message: 'is required with evidence: blind' });
  }
}

/** What judging needs of a rule. */
export const judgingRule = judgingShape.superRefine(checkEvidence);

/** A rule as far as judging goes. Times: milliseconds. */
export type JudgingRule = z.output<typeof judgingRule> & { readonly name: string };

/** What a rule calls the time for which it must be seen, and how long that is in milliseconds. */
export function askedSpan({ evidence, stuckWhen }: Pick<JudgingRule, 'evidence' | 'stuckWhen'>): {
  readonly key: 'inProgressFor' | 'seenFor';
  readonly ms: number;
} {
  return evidence === 'blind'
    ? { key: 'seenFor', ms: stuckWhen.seenFor ?? Number.POSITIVE_INFINITY }
    : { key: 'inProgressFor', ms: stuckWhen.inProgressFor ?? defaultInProgress };
}

/** The evidence for the gauges of suspected callbacks: any entry, with the defaults of a rule. */
export const defaultRule: JudgingRule = {
  name: 'default',
  match: {},
  except: {},
  evidence: 'reported',
  acceptUnverified: false,
  stuckWhen: stuckWhen.parse({}),
};
