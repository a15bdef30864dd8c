import { z } from 'zod';
import { Duration } from '../kit/duration.ts';

const text = z
  .union([z.string(), z.array(z.string()).min(1, { error: 'must not be empty' })], {
    error: 'must be text, or a list of texts of which any will do',
  })
  .transform(value => (typeof value === 'string' ? [value] : value));

const selector = z.strictObject({
  metric: z.string().describe('Name of a gauge or counter in docs/metrics.md.'),
  labels: z
    .record(z.string(), text)
    .prefault({})
    .describe('Values that labels must have, `account` included. Labels that are not named may have any.'),
});

/** Series of one family whose labels have one of the values each. */
export type Selector = z.output<typeof selector>;

const over = Duration.describe('Length of the window. Unknown until it was watched for so long, by this process.');

const kinds = {
  above: selector.safeExtend({ value: z.number().describe('It is more than this.') }).describe('A high value.'),
  below: selector.safeExtend({ value: z.number().describe('It is less than this.') }).describe('A low value.'),
  growth: selector
    .safeExtend({
      over,
      atLeast: z.number().positive().describe('It is now at least so much more than at the begin of the window.'),
    })
    .describe('What grows over a window.'),
  age: selector
    .safeExtend({ above: Duration.describe('It is longer ago than this.') })
    .describe('The age of a time: of a metric that ends in `_timestamp_seconds`.'),
  ratio: z
    .strictObject({
      part: selector.describe('A counter; its series of an account are added up.'),
      whole: selector.describe('As `part`: what that is a share of.'),
      over,
      above: z.number().min(0).describe('The share is more than this; 0.05 is 5 %.'),
      atLeast: z.number().positive().default(1).describe('`whole` rose by so much at least: fewer say nothing.'),
    })
    .describe('How much of the rise of one counter is that of another, over a window.'),
  stale: z
    .strictObject({
      collector: z.string().describe('Value of the label `collector`, such as dlq.'),
      round: z.string().optional().describe('Only this round of it. Default: any.'),
    })
    .describe('No complete round has ended for longer than `staleness.markAfter`.'),
  absent: selector.describe('No such series in an account whose data is fresh.'),
};

type Kind = keyof typeof kinds;

/** One condition. Times: milliseconds. */
export type AlertCondition = { [K in Kind]: { readonly kind: K } & z.output<(typeof kinds)[K]> }[Kind];

/** What an alert is about: exactly one of the kinds. */
export const alertCondition = z
  .strictObject({
    above: kinds.above.optional(),
    below: kinds.below.optional(),
    growth: kinds.growth.optional(),
    age: kinds.age.optional(),
    ratio: kinds.ratio.optional(),
    stale: kinds.stale.optional(),
    absent: kinds.absent.optional(),
  })
  .transform((given, context): AlertCondition => {
    const [one, another] = Object.entries(given).filter(([, value]) => value !== undefined);
    if (one && !another) return { kind: one[0], ...one[1] } as AlertCondition;
    context.addIssue({ code: 'custom', message: `must have exactly one of ${Object.keys(kinds).join(', ')}` });
    return z.NEVER;
  });
