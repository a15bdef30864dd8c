/** How the demo runs a scenario. */
interface DemoSettings {
  /** Seconds of the demo that pass in a real one, for emulator and agent alike. */
  readonly speed: number;
  /** What the agent is told beside its account. */
  readonly config: Readonly<Record<string, unknown>>;
  /** Said when it starts. */
  readonly hint?: string;
}

const usual: DemoSettings = {
  speed: 1,
  config: {
    collect: {
      flowControl: { every: '2s' },
      dlq: {
        every: '5s',
        filters: [
          { name: 'emails', match: { queueName: 'emails' } },
          { name: 'status-500', match: { responseStatus: 500 } },
        ],
      },
      events: { every: '5s', overlap: '5s' },
    },
  },
};

/** A callback is stuck after hours, so hours pass in seconds. Nothing is sent: the rules only plan. */
const stuckCallback: DemoSettings = {
  speed: 900,
  config: {
    collect: {
      flowControl: { every: '10m' },
      dlq: { every: '5m', rescanEvery: '10m' },
      events: { every: '10m', window: '1h' },
    },
    staleness: { withdrawAtMost: '4h' },
    autoCancel: {
      mode: 'plan',
      // All that hung before the demo began look stuck at the same moment.
      breaker: { candidates: { max: 1000, percent: 100 } },
      limits: { perRun: 100, perHour: 1000, perDay: 1000 },
      rules: [
        {
          name: 'app-workflows-hung',
          mode: 'enforce',
          expires: '9999-12-31',
          match: { workflowUrl: { prefix: ['https://app.example.com/'] } },
          stuckWhen: { inProgressFor: '8h', assumeMaxRetries: 4, snapshots: 8 },
          limits: { perRun: 100, perHour: 1000 },
          cooldown: { perUrl: '0s' },
        },
      ],
    },
  },
  hint: 'Time runs 900 times as fast: after some 40 seconds the first failure callbacks have been stuck for 8 hours; then see /api/v1/journal?since=30d.',
};

/** What a scenario needs to be seen. */
export function demoSettings(scenario: string): DemoSettings {
  return scenario === 'stuck-callback' ? stuckCallback : usual;
}
