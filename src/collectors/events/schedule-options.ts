import { z } from 'zod';
import { CronText, TimeZone } from '../../kit/cron.ts';
import { Duration } from '../../kit/duration.ts';
import { AccountNames } from '../../kit/option.ts';

export const MATCH_KEYS = ['scheduleId', 'label', 'queue', 'topic', 'route'] as const;
export type MatchKey = (typeof MATCH_KEYS)[number];

const text = z.string().min(1).max(500).optional();

const match = z
  .strictObject({
    scheduleId: text.describe('Id of the schedule in the service.'),
    label: text.describe('One of the message’s labels.'),
    queue: text.describe('Queue.'),
    topic: text.describe('Topic (URL group).'),
    route: text.describe('Route of the destination: one of `collect.routes`.'),
  })
  .refine(match => Object.values(match).some(value => value !== undefined), {
    error: `must have at least one of ${MATCH_KEYS.join(', ')}`,
  });

const schedule = z.strictObject({
  name: z
    .string()
    .regex(/^[A-Za-z0-9_.-]{1,64}$/, { error: 'must be 1 to 64 of A-Z a-z 0-9 _ . -' })
    .describe('Value of the label `schedule`; unique.'),
  accounts: AccountNames.describe('Accounts with this schedule. Default: all.'),
  match: match.describe('Messages of the schedule: every key must match.'),
  cron: CronText.describe(
    "When a message is expected, as five cron fields: `'0 2 * * *'`. Skipped local times are ignored, repeated ones count once.",
  ),
  tz: TimeZone.describe('IANA time zone of `cron`.'),
  grace: Duration.prefault('15m').describe(
    'Maximum delay until the first message is created, which may also be two seconds early. After that, the start counts as missed.',
  ),
  endsWithin: Duration.prefault('1h').describe(
    'Maximum time from creation to delivery, including retries. After that, the start counts as late.',
  ),
});

export type Schedule = z.output<typeof schedule>;

export const schedulesOf = (schedules: readonly Schedule[], account: string): readonly Schedule[] =>
  schedules.filter(({ accounts }) => accounts?.includes(account) ?? true);

export const schedulesOptions = z.array(schedule).max(200, { error: 'must have at most 200 schedules' });
