import { z } from 'zod';
import { Duration, DurationOrZero } from '../kit/duration.ts';
import { faultOfCron, isTimeZone } from './windows.ts';

// config/ opens only this file of the room.
export { askedSpan } from './rule-options.ts';

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
    .describe('Whose clocks.'),
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

const MODES = ['plan', 'approve', 'enforce'] as const;

/** What acting needs of a rule. */
export const actingRule = z.strictObject({
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

/** Of what judging needs, acting needs one thing: without a reported state nothing can be read back. */
export type ActingRule = z.output<typeof actingRule> & { readonly evidence: 'reported' | 'blind' };

/** What acting needs beyond its rules. */
export const actingOptions = z.strictObject({
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
          max: count.default(25).describe('More of them at a time: none is acted on.'),
          percent: percent.default(30).describe('A larger share of what could be a candidate: none is acted on.'),
          minPopulation: count.default(10).describe('The share counts from so many on.'),
        })
        .prefault({})
        .describe('Too many candidates mean that a rule or the service is wrong.'),
      errors: z
        .strictObject({
          max: count.min(1).default(3).describe('So many of them stop acting.'),
          within: Duration.prefault('15m').describe('In this time.'),
        })
        .prefault({})
        .describe('Cancels that failed.'),
      lostRaces: z
        .strictObject({
          percent: percent.default(50).describe('So large a share stops acting.'),
          ofLast: count.min(1).max(1000).default(10).describe('Among so many cancels.'),
        })
        .prefault({})
        .describe('Cancels of what ended by itself: it was not stuck.'),
    })
    .prefault({})
    .describe('What stops all acting until it is reset by hand.'),
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
});

export type AutoCancelOptions = z.output<typeof actingOptions> & { readonly rules: readonly ActingRule[] };
