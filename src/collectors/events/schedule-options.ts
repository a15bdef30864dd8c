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
    label: text.describe('One of the labels of the message.'),
    queue: text.describe('Queue of the message.'),
    topic: text.describe('Topic (URL group) of the message.'),
    route: text.describe('Route of the destination. It must be one of `collect.routes`.'),
  })
  .refine(match => Object.values(match).some(value => value !== undefined), {
    error: `must have at least one of ${MATCH_KEYS.join(', ')}`,
  });

const schedule = z.strictObject({
  name: z
    .string()
    .regex(/^[A-Za-z0-9_.-]{1,64}$/, { error: 'must be 1 to 64 of A-Z a-z 0-9 _ . -' })
    .describe('Unique name, used as the label `schedule`.'),
  accounts: AccountNames.describe('Accounts with this schedule. Default: all accounts.'),
  match: match.describe('Messages of the schedule. A message must match every key.'),
  cron: CronText.describe(
    "When a message is expected, as five cron fields: `'0 2 * * *'`. When clocks change, skipped local times are ignored, and repeated ones count once.",
  ),
  tz: TimeZone.describe('IANA time zone of `cron`.'),
  grace: Duration.prefault('15m').describe(
    'Maximum time from the expected start to the first message. If no message is created by then, the start counts as missed. Messages may be two seconds early.',
  ),
  endsWithin: Duration.prefault('1h').describe(
    'Maximum time from the creation of a start’s first message to the delivery of a message of this start. If none is delivered by then, the start counts as late.',
  ),
});

export type Schedule = z.output<typeof schedule>;

export const schedulesOf = (schedules: readonly Schedule[], account: string): readonly Schedule[] =>
  schedules.filter(({ accounts }) => accounts?.includes(account) ?? true);

export const schedulesOptions = z.array(schedule).max(200, { error: 'must have at most 200 schedules' });
