import { expect, it } from 'vitest';
import { gauge } from '../../src/metrics/family.ts';
import { createPushMeter } from '../../src/metrics/push.ts';
import { pushOptions } from '../../src/push/options.ts';
import { openPush } from '../../src/push/push.ts';
import { json, serve } from '../support/http-service.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { createTestLog } from '../support/silent.ts';

it('closing the push sends a final snapshot; closing it again sends none', async () => {
  const requests: string[] = [];
  const receiver = await serve((request, response) => {
    requests.push(request.url ?? '');
    json(response, {});
  });
  const clock = createManualClock();
  const family = gauge('delivery_dlq_messages', 'Messages.');
  const samples = () => new Map([[family.name, [{ labels: {}, value: 1 }]]]);
  const meter = createPushMeter(clock.now);
  const push = await openPush({
    shown: () => [{ account: 'a', families: [family], revision: () => 1, samples }],
    config: { push: pushOptions.parse({ metrics: { enabled: true, endpoint: receiver.url } }) },
    env: {},
    process: { refresh: async () => undefined },
    instance: 'a:1',
    meter,
    clock,
    random: () => 0,
    log: createTestLog(),
  });
  await push.close();
  expect(requests).toEqual(['/v1/metrics']);
  await push.close();
  expect(requests).toHaveLength(1);
  expect(push.trouble()).toBeUndefined();
});
