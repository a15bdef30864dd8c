import { expect, it } from 'vitest';
import { scrape } from '../support/agent.ts';
import { eventually } from '../support/eventually.ts';
import { isDelete, setStage } from './stuck-callback.ts';

const RELOADED = /configuration reloaded"/;

it.concurrent.for([
  ['rules with other limits', { autoCancel: { limits: { perDay: 50 } } }],
  ['a rule that only plans', { rule: { mode: 'plan' } }],
  ['a rule for other callbacks', { rule: { match: { workflowUrl: { prefix: ['https://other.example.com/'] } } } }],
  ['changed account settings', { upstream: { timeout: '59s' } }],
] as const)(
  'after a reload with %s, a cancel without a response is read back and not sent again',
  async ([, scene], test) => {
    const [sent, over] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    // The service executes the cancel, but its response is delayed.
    const stage = await setStage(close => void test.onTestFinished(async () => void (await close())), {
      hooks: {
        async after(request) {
          if (!isDelete(request)) return;
          sent.resolve();
          await over.promise;
        },
      },
    });
    test.onTestFinished(() => over.resolve());
    const agent = stage.startAgent();
    const url = await agent.listensAt();
    await sent.promise;
    const requests = async () =>
      (await scrape(url))
        .samples('delivery_watch_api_requests_total', { endpoint: 'cancel' })
        .reduce((sum, { value }) => sum + value, 0);
    stage.configure(scene);
    agent.kill('SIGHUP');
    await eventually(() => expect(agent.stderr() + agent.stdout()).toMatch(RELOADED));
    expect(await requests()).toBe(1);
    await eventually(async () => {
      const { lines } = await stage.journal();
      expect(lines.map(({ step }) => step)).toEqual(['intent', 'answered', 'ended']);
      expect(lines).toMatchObject([{}, { answer: { kind: 'unknown' } }, { outcome: 'confirmed' }]);
    });
    const walked = stage.walks();
    await eventually(() => expect(stage.walks()).toBeGreaterThan(walked + 3));
    expect([stage.deletes, stage.violations]).toEqual([stage.stuck, []]);
    expect(await requests()).toBe(1);
  },
);
