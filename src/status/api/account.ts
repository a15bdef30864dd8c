import { z } from 'zod';
import { FLOW_STATES } from '../../model/flow-state.ts';
import { KEY_LIMITS, PINNABLE } from '../../model/message.ts';
import { AlertView, ChangeView, DataState, Maybe, Num, Problem, Ratio, Seconds, State, Time } from './parts.ts';

const Round = z.object({
  collector: z.string(),
  round: z.string(),
  everySeconds: Seconds,
  state: z.enum(['ok', 'partial', 'failing', 'stale', 'withdrawn', 'waiting', 'not_due', 'absent', 'not_read']),
  dataAt: Maybe(Time).describe('Start of the last complete round. The data was correct at that time or later.'),
  tookSeconds: Maybe(Seconds),
  consecutiveFailures: z.int(),
  failure: Maybe(z.object({ reason: z.string(), message: z.string() })),
  retryAt: Maybe(Time).describe('Start of the next attempt after a failed one; null while an attempt is in flight.'),
});

/** A dead letter without body, headers and error text. */
export const DeadLetterView = z.object({
  dlqId: Maybe(z.string()),
  messageId: Maybe(z.string()),
  enteredAt: Maybe(Time).describe('Derived from the dlqId; otherwise the time of the first read.'),
  createdAt: Maybe(Time),
  url: Maybe(z.string()).describe('Without query, fragment, user and password.'),
  method: Maybe(z.string()),
  responseStatus: Maybe(z.int()).describe('Of the last attempt; 0 without a response.'),
  queue: Maybe(z.string()),
  topic: Maybe(z.string()),
  schedule: Maybe(z.string()),
  label: Maybe(z.string()).describe('The first of `labels`.'),
  labels: z.array(z.string()),
  callbackState: Maybe(z.string()),
});

const Left = z.object({ expired: Num, removed: Num, unknown: Num });

export const AccountView = z.object({
  now: Time,
  account: z.string(),
  state: State,
  up: z.boolean(),
  baseUrl: z.string(),
  region: Maybe(z.string()),
  labels: z.record(z.string(), z.string()),
  problems: z.array(Problem),
  alerts: z.array(AlertView).describe('Pending, firing and recently resolved alerts.'),
  rounds: z.array(Round),
  serviceNow: Time.describe('`now` by the service’s clock. Ages of the service’s data are relative to it.'),
  clockSkewSeconds: Maybe(Num).describe('The service’s clock minus the agent’s; null if unknown.'),
  plan: Maybe(z.string()),
  deadLetters: z.object({
    enabled: z.boolean(),
    data: DataState,
    messages: Maybe(Num),
    change: Maybe(ChangeView).describe('Over the last hour.'),
    most: Maybe(Num).describe('Limit of the plan.'),
    entered: Maybe(Num).describe('Since the first start of the agent.'),
    left: Maybe(Left),
    oldestEntered: Maybe(Time),
    retentionSeconds: Maybe(Seconds),
    nextExpiry: Maybe(Time).describe('When the longest-queued message expires.'),
    filters: z.array(
      z.object({
        name: z.string(),
        messages: Maybe(Num),
        oldestEntered: Maybe(Time),
        entered: Maybe(Num),
        left: Maybe(Left),
        proven: Maybe(z.boolean()).describe('Whether all rows of the filter have the fields of `match` and match it.'),
        failure: Maybe(
          z.object({ reason: z.string(), message: z.string(), since: Maybe(Time), contradicted: z.boolean() }),
        ).describe('Why the last read failed. `contradicted`: rows did not match the filter.'),
      }),
    ),
    breakdowns: z.array(
      z.object({
        dimension: z.string(),
        values: z.array(z.object({ value: z.string(), messages: Num })).describe('Largest first; `__other__` last.'),
        beyondCap: z.int(),
      }),
    ),
    kinds: z.object({
      count: Maybe(Num),
      appeared: Num,
      others: Num,
      largest: z.array(
        z.object({
          id: z.string(),
          urlHost: z.string(),
          route: z.string().describe('Empty if it is not known yet.'),
          responseStatus: z.string(),
          messages: Num,
          change: Maybe(ChangeView).describe(
            'Over the last hour; null if unknown. The history contains only the 50 largest kinds of each minute.',
          ),
          sample: Maybe(z.string()).describe('dlqId of an example.'),
        }),
      ),
    }),
    newestEntries: z.array(DeadLetterView).describe('The ten newest entries.'),
    longestEntries: z.array(DeadLetterView).describe('The ten longest-queued entries.'),
    callbacks: Maybe(z.record(z.string(), Num)).describe('Failure callbacks by state.'),
    suspected: Maybe(Num).describe('Failure callbacks that seem stuck.'),
    oldestInProgress: Maybe(Time),
  }),
  events: z.object({
    enabled: z.boolean(),
    data: DataState,
    windowSeconds: Maybe(Seconds),
    recent: Maybe(z.record(z.string(), Num)).describe('Events in the window, by state.'),
    lastHour: Maybe(
      z.object({
        overSeconds: Seconds.describe('Length of the window: an hour, or less if the history is shorter.'),
        delivered: Num,
        failed: Num,
        cancelled: Num,
        overdue: Num,
        redelivered: Maybe(Num).describe('Redeliveries counted. Null without history.'),
        deliveredRatio: Maybe(Ratio),
        timeToDeliver: z
          .array(z.object({ quantile: Ratio, atMostSeconds: Maybe(Seconds) }))
          .describe('Upper bound of the bucket with the quantile; null above the last bound.'),
      }),
    ),
    objectives: z.object({ delivered: Ratio, onTime: Ratio, onTimeWithinSeconds: Seconds }),
    inFlight: Maybe(Num),
    oldestInFlight: Maybe(Time),
    newest: Maybe(Time),
    destinations: z
      .array(z.object({ destination: z.string(), delivered: Num, failed: Num, cancelled: Num }))
      .describe('Destinations if `events.destination` is set, most failures first.'),
  }),
  flowControl: z.object({
    enabled: z.boolean(),
    data: DataState,
    keys: Maybe(Num),
    waiting: Maybe(Num),
    beyondCap: Num.describe('Keys without a separate series.'),
    beyondCapWaiting: Num.describe('Messages and workflow steps that wait on these keys.'),
    parallelismLimit: Maybe(Num).describe('Limit of the account; null while nothing waits, or if not reported.'),
    parallelismInUse: Maybe(Num).describe('Of the account.'),
    rows: z
      .array(
        z.object({
          key: z.string(),
          waiting: Maybe(Num).describe('Null if unreadable.'),
          change: Maybe(ChangeView).describe('Over the last 15 minutes.'),
          drainSeconds: Maybe(Seconds).describe(
            'Time until the waitlist is empty; null if it does not shrink steadily.',
          ),
          state: Maybe(z.enum(FLOW_STATES)).describe('Null if undecided: `moving` and `waiting` need two reads.'),
          stateSince: Maybe(Time).describe('Null if the state is null.'),
          parallelismLimit: Maybe(Num),
          parallelismInUse: Maybe(Num),
          rateLimit: Maybe(Num),
          rateUsed: Maybe(Num),
          ratePeriodSeconds: Maybe(Seconds),
          saturation: Maybe(Num).describe('The larger of the used shares of parallelism and rate.'),
          paused: Maybe(z.boolean()),
          pinned: Maybe(z.array(z.enum(PINNABLE))).describe('Limits that an operator has pinned.'),
          lastChange: Maybe(z.object({ limit: z.enum(KEY_LIMITS), from: Num, to: Num, at: Time })).describe(
            'The latest change of a limit; null if none was detected. A period is in seconds.',
          ),
        }),
      )
      .describe('At most 100 keys, largest waitlists first.'),
  }),
  queues: z.object({
    enabled: z.boolean().describe('Also false if the service does not list queues.'),
    data: DataState,
    beyondCap: Num.describe('Queues without a separate series.'),
    beyondCapLag: Num,
    rows: z
      .array(
        z.object({
          queue: z.string(),
          lag: Maybe(Num).describe('Waiting messages. The service’s number is not reliable.'),
          paused: Maybe(z.boolean()),
          parallelismLimit: Maybe(Num),
        }),
      )
      .describe('At most 100 queues, the longest first.'),
  }),
  schedules: z
    .array(
      z.object({
        name: z.string(),
        id: Maybe(z.string()).describe('Null, like the next five fields, if the service does not list the schedule.'),
        destination: Maybe(z.string()).describe('Host, or name of the URL group.'),
        cron: Maybe(z.string()),
        timeZone: Maybe(z.string()).describe('Null: UTC.'),
        lastRun: Maybe(z.enum(['succeeded', 'partly_failed', 'failed', 'in_progress', 'unknown'])),
        error: Maybe(z.string()).describe('The service’s explanation of the last failure, redacted.'),
        state: z
          .enum(['ok', 'missed', 'late', 'failing', 'paused', 'unknown'])
          .describe('Result of the last expected start, or `paused`.'),
        lastStarted: Maybe(Time),
        lastDelivered: Maybe(Time),
        lastFailed: Maybe(Time),
        next: Maybe(Time),
        missed: Num,
        late: Maybe(Num).describe('Null if the schedule is not configured: its runs then have no deadline.'),
        unexpected: Maybe(Num).describe('Starts at unexpected times; null if the service does not list the schedule.'),
      }),
    )
    .describe('Configured schedules, and those that the service lists: at most 200, problems first.'),
  usage: Maybe(
    z.object({
      at: Time,
      requestsToday: Maybe(Num),
      requestsPerDay: Maybe(Num).describe('Limit of the plan; null if unlimited or unknown.'),
      deadLetters: Maybe(Num),
    }),
  ).describe('Usage of the plan according to the management API; null if it is not read.'),
  runs: Maybe(
    z.object({
      olderThanSeconds: Seconds,
      count: Maybe(Num).describe('Runs older than `olderThanSeconds`; null if unknown. If `hasMore`, there are more.'),
      hasMore: z.boolean(),
      oldest: Maybe(
        z.object({
          runId: z.string(),
          url: Maybe(z.string()).describe('Without query, fragment, user and password.'),
          createdAt: Time,
        }),
      ),
    }),
  ).describe('Old workflow runs. Null if the service does not list runs, or before the first read.'),
  calls: z.object({
    budgetRemaining: Maybe(Num),
    budgetPerDay: Num,
    tokenRejected: Maybe(z.boolean()),
  }),
});
export type AccountView = z.output<typeof AccountView>;
