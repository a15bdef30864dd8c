import { expect } from 'vitest';
import { startAgent } from '../../src/agent/agent.ts';
import { afterThisTest } from '../support/client.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { loadedFrom } from '../support/view-scene.ts';

export const MINUTE = 60_000;
export const TOKEN = 'page-token-canary';
export const HOSTILE = `<script>document.title='pwned'</script>"'><img src=x onerror=alert(1)>\u202e\u0000${'w'.repeat(200)}`;

/** Prepares an emulator and an agent on a manual clock, so that pages do not change while their contents are compared. */
export async function setScene(account: object = {}, config: object = {}, names: readonly string[] = ['acme']) {
  const clock = createManualClock(Date.UTC(2026, 0, 1, 12));
  const emulator = await emulateEmpty({ clock, token: TOKEN, dialect: { flowControlFields: 'all' } });
  const common = { baseUrl: emulator.url, token: TOKEN, budget: { requestsPerSecond: 1000, burst: 1000 } };
  const loaded = loadedFrom({
    server: { listen: '127.0.0.1:0' },
    accounts: names.map(name => ({ name, ...common, ...account })),
    ...config,
  });
  const fill = () => {
    const { state } = emulator;
    for (const [index, responseStatus] of [500, 404, 503, 0].entries()) {
      const enteredAt = clock.now() - (index + 1) * MINUTE;
      const url = `https://api.example.com/v1/orders/${index}?token=${TOKEN}`;
      state.addDlqEntry({ enteredAt, createdAt: enteredAt, responseStatus, url, label: HOSTILE, queueName: HOSTILE });
    }
    state.addFailedRun({
      enteredAt: clock.now() - 10 * MINUTE,
      workflowUrl: `https://flow.example.com/run?t=${TOKEN}`,
    });
    state.setWaitlist('mail/send', 12);
    state.setWaitlist(HOSTILE, 3);
  };
  async function start() {
    const agent = await startAgent(loaded, { env: {}, clock, random: () => 0 });
    afterThisTest(() => agent.close());
    return agent;
  }
  return { clock, emulator, fill, start };
}

export type Scene = Awaited<ReturnType<typeof setScene>>;

export const getJson = async (url: string, headers = {}): Promise<unknown> => (await fetch(url, { headers })).json();

/** Advances the clock until the account has been read completely. */
export async function untilRead({ clock }: Scene, url: string, step = 1000): Promise<void> {
  await eventually(async () => {
    await clock.advance(step);
    const view = await getJson(`${url}/api/v1/accounts/acme`);
    const fresh = { data: 'fresh' };
    expect(view).toMatchObject({ up: true, deadLetters: fresh, events: fresh, flowControl: fresh });
  });
}

export const RICH = {
  account: { retention: { dlq: '7d' }, limits: { dlqSize: 1000 }, labels: { note: HOSTILE }, region: 'eu-west-1' },
  config: {
    collect: {
      dlq: { filters: [{ name: 'status-500', match: { responseStatus: 500 } }], breakdowns: ['urlHost', 'label'] },
      events: { destination: 'host' },
    },
    schedules: [{ name: 'nightly', match: { scheduleId: 'scd_1' }, cron: '* * * * *', grace: '1m' }],
    autoCancel: {
      mode: 'plan',
      rules: [{ name: 'hung', match: { url: { prefix: ['https://'] } }, stuckWhen: { inProgressFor: '48h' } }],
    },
  },
};
