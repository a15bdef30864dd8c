import { z } from 'zod';
import { cronWindow, timeWithZone } from '../kit/cron.ts';
import { Duration, DurationOrZero } from '../kit/duration.ts';
import { AccountNames, EntryName } from '../kit/option.ts';
import { uniqueNames } from '../kit/unique-names.ts';
import { conditions, NO_MATCH } from './conditions.ts';
import { stuckWhen } from './stuck-when.ts';

export { minimumSpan } from './stuck-when.ts';

const count = z.int().min(0).max(1_000_000);
const percent = z.number().min(0).max(100);

/** A time, or the end of a day in UTC (ms since the Unix epoch). */
const end = z.union(
  [
    z.iso.date().transform(day => Date.parse(day) + 86_400_000),
    z.iso.datetime({ offset: true }).transform(text => Date.parse(text)),
  ],
  { error: "must be a day such as 2027-06-30 or a time such as '2027-06-30T18:00:00Z'" },
);

const denied = z
  .strictObject({
    from: timeWithZone.describe('Start, inclusive.'),
    to: timeWithZone.describe('End, exclusive.'),
    reason: z.string().min(1).describe('A comment.'),
  })
  .refine(({ from, to }) => from < to, { error: 'must be after from', path: ['to'] });

/** Most cautious first. */
export const MODES = ['plan', 'approve', 'enforce'] as const;

/** Times in milliseconds. */
export const autoCancelRule = z
  .strictObject({
    name: EntryName.describe('Unique name, used as the label `rule`.'),
    mode: z
      .enum(MODES, { error: `must be one of ${MODES.join(', ')}` })
      .default('plan')
      .describe(
        '`plan`: only records planned cancels. `approve`: cancels after an operator’s approval. `enforce`: cancels without approval. `autoCancel.mode` may restrict the mode.',
      ),
    expires: end
      .nullable()
      .default(null)
      .describe(
        'Date or timestamp after which the rule behaves as in mode `plan`. A date includes the whole day (UTC). Required for `enforce`.',
      ),
    accounts: AccountNames.describe('Accounts to which the rule applies. Default: all accounts.'),
    grace: DurationOrZero.prefault('30m').describe(
      'Minimum time between finding a callback stuck and cancelling it. After this time, a walk must find the callback stuck again.',
    ),
    limits: z
      .strictObject({
        perRun: count.default(2).describe('Maximum cancels per walk.'),
        perHour: count.default(6).describe('Maximum cancels per hour.'),
      })
      .prefault({})
      .describe('Limits for this rule, in each account separately.'),
    cooldown: z
      .strictObject({
        perUrl: DurationOrZero.prefault('10m').describe(
          'Minimum time between two cancels for messages with the same URL.',
        ),
      })
      .prefault({}),
    windows: z
      .strictObject({
        allow: z
          .array(cronWindow)
          .max(100)
          .default([])
          .describe('The rule cancels only while one of these windows is open. Default: always.'),
        deny: z
          .array(denied)
          .max(100)
          .default([])
          .describe('Periods in which the rule never cancels. They override `allow`.'),
      })
      .prefault({}),
    notify: z
      .array(z.string())
      .default([])
      .describe('Notifiers for notifications of this rule, even if `alerts.enabled` is `false`.'),
    recheckAfter: Duration.prefault('24h').describe(
      'For `blind`: how long the rule skips an entry after a cancel found no callback in progress.',
    ),
    match: conditions
      .refine(match => Object.values(match).some(way => way !== undefined), { error: NO_MATCH })
      .describe(
        'Entries to which the rule applies. Each key names a field. The entry must have all these fields, and each must match one of `in`, `prefix` and `matches`.',
      ),
    except: conditions
      .prefault({})
      .describe(
        'As `match`, but for entries to exclude. An entry is excluded if any key matches, or if the entry lacks the field that a key names.',
      ),
    evidence: z
      .enum(['reported', 'blind'], { error: 'must be reported or blind' })
      .default('reported')
      .describe(
        '`reported`: the service reports the callback as in progress. `blind`: the service reports no state, and only the elapsed time counts.',
      ),
    acceptUnverified: z
      .boolean()
      .default(false)
      .describe('For `blind`: confirms that the rule may cancel without knowing whether a callback is in progress.'),
    stuckWhen: stuckWhen.prefault({}).describe('Conditions for a stuck callback. All of them must be true.'),
  })
  .superRefine((rule, context) => {
    const { mode, expires, evidence, acceptUnverified, stuckWhen } = rule;
    const reject = (path: string[], message: string) => context.addIssue({ code: 'custom', path, message });
    const [needed, other] =
      evidence === 'blind' ? (['seenFor', 'inProgressFor'] as const) : (['inProgressFor', 'seenFor'] as const);
    if (stuckWhen[other] !== undefined) {
      reject(['stuckWhen', other], `cannot be used with evidence: ${evidence}; use ${needed}`);
    } else if (evidence === 'blind' && stuckWhen.seenFor === undefined) {
      reject(['stuckWhen', 'seenFor'], 'is required with evidence: blind');
    }
    if (mode !== 'enforce') return;
    if (expires === null) reject(['expires'], 'is required with mode: enforce');
    if (evidence === 'blind' && !acceptUnverified) {
      reject(
        ['acceptUnverified'],
        'must be true with mode: enforce and evidence: blind, because the service does not report whether a callback is in progress, or whether an operator ran it again',
      );
    }
  });

export const autoCancelRules = z.array(autoCancelRule).superRefine(uniqueNames);

export const autoCancelOptions = z.strictObject({
  mode: z
    .enum(['off', 'plan', 'enforce'], { error: 'must be off, plan or enforce' })
    .default('off')
    .describe(
      '`off`: rules are not evaluated. `plan`: all rules run in mode `plan`. `enforce`: each rule runs in its own `mode`.',
    ),
  stopFile: z.string().min(1).default('./data/STOP').describe('While this file exists, the agent cancels nothing.'),
  limits: z
    .strictObject({
      perRun: count.default(5).describe('Maximum cancels per walk (full scan of the queue).'),
      perHour: count.default(20).describe('Maximum cancels per hour.'),
      perDay: count.default(50).describe('Maximum cancels per day.'),
      spacing: DurationOrZero.prefault('2s').describe('Minimum time between two cancels.'),
    })
    .prefault({})
    .describe('Limits for all rules together, in each account separately.'),
  breaker: z
    .strictObject({
      candidates: z
        .strictObject({
          max: count.default(25).describe('The breaker opens if one walk finds more candidates than this number.'),
          percent: percent
            .default(30)
            .describe(
              'The breaker opens if more than this percentage of the callbacks that match the `match` of a rule seem stuck (are candidates).',
            ),
          minPopulation: count
            .default(10)
            .describe('Below this number of matching callbacks, `percent` does not apply.'),
        })
        .prefault({})
        .describe(
          'The breaker opens if there are too many candidates (stuck callbacks). Many candidates suggest an error in a rule or in the service.',
        ),
      errors: z
        .strictObject({
          max: count.min(1).default(3).describe('The breaker opens after this number of failed cancels.'),
          within: Duration.prefault('15m').describe('Period in which failed cancels are counted.'),
        })
        .prefault({}),
      lostRaces: z
        .strictObject({
          percent: percent
            .default(50)
            .describe('The breaker opens if at least this percentage of recent cancels came too late.'),
          ofLast: count.min(1).max(1000).default(10).describe('Number of recent cancels to which `percent` refers.'),
        })
        .prefault({})
        .describe('The breaker opens if too many cancels came too late (after the callback had ended).'),
    })
    .prefault({})
    .describe('An open breaker stops all cancels of the account until an operator resets the breaker.'),
  pauseWhileAlerts: z
    .array(z.string())
    .default([])
    .describe(
      'Names of alerts or kinds of problems. While any is firing or unknown for an account, the agent cancels nothing in this account.',
    ),
  idFrom: z
    .enum(['dlqId', 'messageId'], { error: 'must be dlqId or messageId' })
    .default('dlqId')
    .describe('Field that identifies the callback to cancel. An entry without this field is never cancelled.'),
  rules: autoCancelRules
    .default([])
    .describe(
      'Rules that define stuck callbacks. If several rules match, the one with the most cautious mode applies. If several have this mode, the first applies.',
    ),
});

type Parsed = z.output<typeof autoCancelOptions>;
export type AutoCancelRule = z.output<typeof autoCancelRule>;
export type AutoCancelOptions = Omit<Parsed, 'rules'> & { readonly rules: readonly AutoCancelRule[] };
export type Mode = AutoCancelRule['mode'];

export const rulesFor = ({ rules }: Pick<AutoCancelOptions, 'rules'>, account: string): readonly AutoCancelRule[] =>
  rules.filter(({ accounts }) => accounts?.includes(account) ?? true);

/** Returns the rules that may cancel in an account. */
export const actingRules = (autoCancel: AutoCancelOptions, account: string): readonly AutoCancelRule[] =>
  autoCancel.mode === 'enforce' ? rulesFor(autoCancel, account).filter(({ mode }) => mode !== 'plan') : [];

/** Whether any rule may cancel in an account. If so, the account needs an action token. */
export function accountMayAct({ autoCancel }: { readonly autoCancel: AutoCancelOptions }, account: string): boolean {
  return actingRules(autoCancel, account).length > 0;
}
