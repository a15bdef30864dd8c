import { z } from 'zod';
import { Duration, DurationOrZero } from '../kit/duration.ts';
import { conditions, NO_MATCH } from './conditions.ts';
import { stuckWhen } from './stuck-when.ts';
import { faultOfCron, isTimeZone } from './windows.ts';

export { askedSpan } from './stuck-when.ts';

const count = z.int().min(0).max(1_000_000);
const percent = z.number().min(0).max(100);

const MOMENT = z.iso.datetime({ offset: true });

/** The midnight (UTC) that ends a day, or a moment, in milliseconds since the Unix epoch. */
const end = z.union(
  [z.iso.date().transform(day => Date.parse(day) + 86_400_000), MOMENT.transform(text => Date.parse(text))],
  { error: "must be a day such as 2027-06-30 or a time such as '2027-06-30T18:00:00Z'" },
);

const moment = z
  .string()
  .refine(text => MOMENT.safeParse(text).success, {
    error: "must be a time with its zone such as '2026-12-20T00:00:00Z'",
    abort: true,
  })
  .transform(text => Date.parse(text));

const allowed = z.strictObject({
  cron: z
    .string()
    .superRefine((cron, context) => {
      const message = faultOfCron(cron);
      if (message) context.addIssue({ code: 'custom', message });
    })
    .describe("When it opens, five fields: minute, hour, day of the month, month, day of the week: `'0 8 * * 1-5'`."),
  for: Duration.describe('How long it stays open.'),
  tz: z
    .string()
    .refine(isTimeZone, { error: 'must be a time zone such as Europe/Amsterdam' })
    .default('UTC')
    .describe('IANA time zone of `cron`.'),
});

const denied = z
  .strictObject({
    from: moment.describe('Closed from then on.'),
    to: moment.describe('Until right before then.'),
    reason: z
      .string()
      .min(1)
      .describe('Why, for readers of this file. A rule that it holds back is told as `window_denied`.'),
  })
  .refine(({ from, to }) => from < to, { error: 'must be after from', path: ['to'] });

/** From the most cautious to the least. */
export const MODES = ['plan', 'approve', 'enforce'] as const;

/** What acting needs of a rule. */
const actingRule = z.strictObject({
  name: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,64}$/, { error: 'must be 1 to 64 of A-Z a-z 0-9 _ -' })
    .describe('Value of the label `rule`; unique.'),
  mode: z
    .enum(MODES, { error: `must be ${MODES.join(', ')}` })
    .default('plan')
    .describe('`plan` says what it would do, `approve` asks first, `enforce` does it. Capped by `autoCancel.mode`.'),
  expires: end
    .nullable()
    .default(null)
    .describe('After it (a day ends in UTC) the rule only plans; `enforce` needs it, so that no rule is forgotten.'),
  accounts: z
    .array(z.string())
    .min(1, { error: 'must not be empty' })
    .nullable()
    .default(null)
    .describe('Accounts that the rule is for. Default: all.'),
  grace: DurationOrZero.prefault('30m').describe(
    'Time between telling that something is stuck and acting, after which it is judged again.',
  ),
  limits: z
    .strictObject({
      perRun: count.default(2).describe('Cancels at one time.'),
      perHour: count.default(6).describe('Cancels in one hour.'),
    })
    .prefault({})
    .describe('The most that this rule may do, within `autoCancel.limits`.'),
  cooldown: z
    .strictObject({
      perUrl: DurationOrZero.prefault('10m').describe('Time between two cancels of callbacks of the same address.'),
    })
    .prefault({})
    .describe('How long the rule leaves things alone after it acted.'),
  windows: z
    .strictObject({
      allow: z
        .array(allowed)
        .max(100)
        .default([])
        .describe('The rule acts only while one of these is open. Default: always.'),
      deny: z
        .array(denied)
        .max(100)
        .default([])
        .describe('The rule does not act while one of these lasts, whatever is allowed.'),
    })
    .prefault({})
    .describe('When the rule may act.'),
  notify: z.array(z.string()).default([]).describe('Notifiers that are told.'),
  recheckAfter: Duration.prefault('24h').describe(
    'With `blind`: how long an entry is left alone of which the service said that nothing was in progress.',
  ),
});

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

/** Each evidence has a time of its own. */
function checkEvidence(
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

/** The evidence for the gauges of suspected callbacks: any entry, with the defaults of a rule. */
export const defaultRule: JudgingRule = {
  name: 'default',
  match: {},
  except: {},
  evidence: 'reported',
  acceptUnverified: false,
  stuckWhen: stuckWhen.parse({}),
};

const rule = actingRule.safeExtend(judgingRule.shape).superRefine((rule, context) => {
  checkEvidence(rule, context);
  const { mode, expires, evidence, acceptUnverified } = rule;
  if (mode !== 'enforce') return;
  if (expires === null) {
    context.addIssue({ code: 'custom', path: ['expires'], message: 'is required with mode: enforce' });
  }
  if (evidence === 'blind' && !acceptUnverified) {
    context.addIssue({
      code: 'custom',
      path: ['acceptUnverified'],
      message:
        'must be true with mode: enforce and evidence: blind: the service does not tell whether a callback is in progress, or was run again by hand',
    });
  }
});

export const autoCancelRules = z.array(rule).superRefine((rules, context) => {
  const names = new Set<string>();
  for (const [index, { name }] of rules.entries()) {
    if (names.has(name)) {
      context.addIssue({ code: 'custom', path: [index, 'name'], message: `must be unique; ${name} is there already` });
    }
    names.add(name);
  }
});

/** The section `autoCancel`. */
export const autoCancelOptions = z.strictObject({
  mode: z
    .enum(['off', 'plan', 'enforce'], { error: 'must be off, plan or enforce' })
    .default('off')
    .describe('`off`: rules are not judged. `plan`: every rule only plans. `enforce`: each as its own mode says.'),
  stopFile: z.string().min(1).default('./data/STOP').describe('While this file is there, nothing is sent.'),
  limits: z
    .strictObject({
      perRun: count.default(5).describe('Cancels at one time.'),
      perHour: count.default(20).describe('Cancels in one hour.'),
      perDay: count.default(50).describe('Cancels in one day.'),
      spacing: DurationOrZero.prefault('2s').describe('Time between two cancels.'),
    })
    .prefault({})
    .describe('The most that all rules together may do for one account.'),
  breaker: z
    .strictObject({
      candidates: z
        .strictObject({
          max: count.default(25).describe('Opens the breaker when one walk finds more candidates than this.'),
          percent: percent
            .default(30)
            .describe(
              'Opens the breaker when a larger share (in percent) of the callbacks that the rules match are candidates.',
            ),
          minPopulation: count.default(10).describe('Callbacks that the rules must match before `percent` counts.'),
        })
        .prefault({})
        .describe('Too many candidates mean that a rule or the service is wrong.'),
      errors: z
        .strictObject({
          max: count.min(1).default(3).describe('Opens the breaker after so many failed cancels.'),
          within: Duration.prefault('15m').describe('Time in which they are counted.'),
        })
        .prefault({})
        .describe('Cancels that failed.'),
      lostRaces: z
        .strictObject({
          percent: percent
            .default(50)
            .describe('Opens the breaker when so large a share (in percent) of cancels came too late.'),
          ofLast: count.min(1).max(1000).default(10).describe('How many of the latest cancels are counted.'),
        })
        .prefault({})
        .describe('Cancels of callbacks that ended by themselves: they were not stuck.'),
    })
    .prefault({})
    .describe('Breakers: each stops all cancels of the account until an operator resets it.'),
  pauseWhileAlerts: z
    .array(z.string())
    .default([])
    .describe(
      'Nothing is cancelled in an account while any of these alerts fires there, or while it is not known whether it does.',
    ),
  idFrom: z
    .enum(['dlqId', 'messageId'], { error: 'must be dlqId or messageId' })
    .default('dlqId')
    .describe('Which field of an entry is the id to cancel. An entry without it is never acted on.'),
  rules: autoCancelRules
    .default([])
    .describe(
      'What is stuck. Of several rules that match a callback the one with the most cautious mode counts, and of two such the first.',
    ),
});

type Parsed = z.output<typeof autoCancelOptions>;
export type Rule = Parsed['rules'][number];
export type AutoCancelOptions = Omit<Parsed, 'rules'> & { readonly rules: readonly Rule[] };
export type Mode = Rule['mode'];

/** The rules that are for an account. */
export const rulesFor = ({ rules }: Pick<AutoCancelOptions, 'rules'>, account: string): readonly Rule[] =>
  rules.filter(({ accounts }) => accounts?.includes(account) ?? true);
