import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/kit/secret.ts';
import { fingerprintOf, type Notice } from '../../src/notify/notice.ts';
import { pagerduty } from '../../src/notify/notifiers/pagerduty.ts';
import { createWebhook } from '../../src/notify/notifiers/webhook.ts';
import { createPost } from '../../src/upstream/post.ts';
import { createDeliveryScene, createReceiver, FAILED, HOUR, MINUTE } from '../rules/alerting-scene.ts';
import { afterThisTest } from '../support/client.ts';
import { atThisLoad } from '../support/eventually.ts';
import { alertEvent, startPagerduty } from '../support/pagerduty.ts';
import { runs } from '../support/runs.ts';

const START = Date.UTC(2026, 5, 1, 12);
const KEY = 'e93facc04764012d7bfb002500d5d1a6';
const labels = { alertname: 'DlqGrowing', account: 'production', severity: 'warning' };
const firing: Notice = { status: 'firing', labels, annotations: {}, startsAt: START };
const resolved: Notice = { ...firing, status: 'resolved', endsAt: START + 60_000 };

const eventOf = (notice: Notice, externalUrl = '') => {
  const group = { labels: {}, key: 'k', left: 0 };
  const common = { group, externalUrl, notifier: 'pd', secret: new Secret(KEY), template: '' };
  return JSON.parse(pagerduty.bodyOf({ ...common, notices: [notice] }));
};
const payloadOf = (notice: Notice) => {
  const event = alertEvent.parse(eventOf(notice));
  return event.event_action === 'trigger' ? event.payload : undefined;
};

describe('events', () => {
  it('an event triggers an alert with its summary, source, severity, start, labels, annotations and links', () => {
    const annotations = { summary: 'It grows.', runbook_url: 'https://runbooks.example/x', dashboard_url: 'nowhere' };
    const notice = { ...firing, labels: { ...labels, queue: 'q', team: 'pay' }, annotations };
    expect(alertEvent.parse(eventOf(notice, 'https://dw.example/'))).toEqual({
      routing_key: KEY,
      dedup_key: `delivery-watch/${fingerprintOf(notice.labels)}`,
      event_action: 'trigger',
      payload: {
        summary: 'DlqGrowing (production): It grows.',
        source: 'production',
        severity: 'warning',
        timestamp: '2026-06-01T12:00:00.000Z',
        class: 'DlqGrowing',
        component: 'queue="q" team="pay"',
        custom_details: { ...notice.labels, ...annotations },
      },
      links: [
        { href: 'https://runbooks.example/x', text: 'runbook' },
        { href: 'https://dw.example/', text: 'status page' },
      ],
      client: 'delivery-watch',
      client_url: 'https://dw.example/',
    });
  });

  it('an event resolves an alert by its key alone', () => {
    const { dedup_key } = eventOf(firing);
    expect(alertEvent.parse(eventOf(resolved))).toEqual({ routing_key: KEY, dedup_key, event_action: 'resolve' });
  });

  it.each([
    ['critical', 'critical'],
    ['error', 'error'],
    ['warning', 'warning'],
    ['info', 'info'],
    ['page', 'error'],
    [undefined, 'error'],
  ])('the severity label %s becomes the event severity %s', (severity, expected) => {
    const { severity: _, ...others } = labels;
    const given = severity === undefined ? others : { ...others, severity };
    expect(payloadOf({ ...firing, labels: given })?.severity).toBe(expected);
  });

  it('an event names the agent as its source if the alert has no account', () => {
    expect(payloadOf({ ...firing, labels: { alertname: 'A' } })).toMatchObject({
      summary: 'A (delivery-watch)',
      source: 'delivery-watch',
    });
  });

  it('an event conforms to the documented schema for any labels and annotations', () => {
    const any = fc.oneof(fc.string({ unit: 'binary', minLength: 1, maxLength: 5000 }), fc.constant('😀'.repeat(2000)));
    const texts = fc.record({ summary: any, description: any, runbook_url: any, x: any });
    fc.assert(
      fc.property(any, any, any, texts, (alertname, account, x, annotations) => {
        const event = alertEvent.parse(eventOf({ ...firing, labels: { alertname, account, x }, annotations }));
        expect(event.event_action === 'trigger' && event.payload.summary.isWellFormed()).toBe(true);
      }),
      { numRuns: runs(100) },
    );
  });
});

it.each([
  ['{"status":"invalid event","errors":["Length of \'routing_key\' is incorrect"]}', true],
  ['{"status":"invalid event","errors":["\'payload.summary\' is missing"]}', false],
  ['{"status":"success","message":"\'routing_key\'"}', false],
  ['canary_7f3a', false],
])('whether the response %s of PagerDuty is an error: %s', (text, isError) =>
  expect(pagerduty.isError?.(text)).toBe(isError),
);

async function createScene() {
  const service = await startPagerduty(KEY);
  const { post, close } = createPost(atThisLoad(1000));
  afterThisTest(close);
  const hook = (key: string) =>
    createWebhook({
      notifier: 'pd',
      format: 'pagerduty',
      post,
      now: () => START,
      externalUrl: 'https://dw.example/',
      url: async () => new Secret(service.url),
      secret: async () => new Secret(key),
      grouping: { by: [], wait: HOUR, repeatEvery: 4 * HOUR },
      selects: () => true,
    });
  const scene = await createDeliveryScene([hook(KEY)]);
  const actions = () => service.events.map(({ event_action, dedup_key }) => `${event_action} ${dedup_key.slice(-4)}`);
  return { service, hook, scene, actions };
}

const alert = (x: string, more: Partial<Notice> = {}): Notice => ({ ...firing, labels: { ...labels, x }, ...more });
const id = (x: string) => fingerprintOf(alert(x).labels).slice(-4);

describe('alerts sent to PagerDuty', () => {
  it('each alert triggers and resolves one PagerDuty alert, in separate requests without a signature', async () => {
    const { service, scene, actions } = await createScene();
    scene.begin('1', alert('1'));
    scene.begin('2', alert('2'));
    await scene.deliver();
    scene.end('1');
    await scene.deliver();
    expect(service.errors).toEqual([]);
    expect(actions()).toEqual([`trigger ${id('1')}`, `trigger ${id('2')}`, `resolve ${id('1')}`]);
    expect(service.open.size).toBe(1);
    await scene.deliver(48 * HOUR);
    expect(actions()).toHaveLength(3);
  });

  it('the latest state is sent after status 429 and 500, without repeating accepted events', async () => {
    const { service, scene, actions } = await createScene();
    scene.begin('1', alert('1'));
    await scene.deliver();
    for (const status of [429, 500]) {
      service.status = status;
      scene.begin('2', alert('2', { startsAt: START + status }));
      await scene.deliver(MINUTE);
    }
    service.status = undefined;
    await scene.deliver(HOUR);
    scene.end('2');
    await scene.deliver(HOUR);
    expect(actions()).toEqual([`trigger ${id('1')}`, `trigger ${id('2')}`, `resolve ${id('2')}`]);
    expect(service.opened).toBe(2);
    // The first episode of alert 2 ended while it could not be sent.
    expect(scene.counts).toEqual({ 'pd sent': 3, 'pd failed': 2, 'pd dropped': 1 });
  });

  it('triggers are retried after status 400, with a log line that names routing_key but not its value', async () => {
    const { service, hook, scene, actions } = await createScene();
    const other = 'f'.repeat(32);
    await scene.restart([hook(other)]);
    scene.begin('1', alert('1'));
    await scene.deliver();
    await scene.deliver(HOUR);
    expect(service.requests).toBe(1);
    await scene.deliver(3 * HOUR);
    expect(service.requests).toBe(2);
    expect(scene.counts).toEqual({ 'pd failed': 2 });
    expect(JSON.stringify(scene.log.lines)).toContain(
      "status 400, Event object is invalid: Length of 'routing_key' is incorrect",
    );
    expect(JSON.stringify(scene.log.lines)).not.toContain(other);
    scene.deliveries()[0]?.use(hook(KEY));
    await scene.deliver();
    expect(actions()).toEqual([`trigger ${id('1')}`]);
  });

  it('only one PagerDuty alert is opened if the agent dies before it gets the response', async () => {
    const { service, scene, actions } = await createScene();
    service.isSilent = true;
    scene.begin('1', alert('1'));
    await scene.deliver();
    service.isSilent = false;
    await scene.restart();
    await scene.deliver();
    scene.end('1');
    await scene.deliver();
    expect(actions()).toEqual([`trigger ${id('1')}`, `trigger ${id('1')}`, `resolve ${id('1')}`]);
    expect(service).toMatchObject({ opened: 1, open: new Set(), errors: [] });
  });

  it('events are sent per alert even if the notifier previously used a format with groups', async () => {
    const { service, hook, scene, actions } = await createScene();
    const before = createReceiver('changes', 'pd', 0, { by: [], wait: 0, repeatEvery: HOUR });
    before.answer = () => FAILED;
    await scene.restart([before]);
    scene.begin('1', alert('1'));
    scene.begin('2', alert('2'));
    await scene.deliver();
    await scene.restart([hook(KEY)]);
    await scene.deliver();
    expect(service.errors).toEqual([]);
    expect(actions()).toEqual([`trigger ${id('1')}`, `trigger ${id('2')}`]);
    await scene.deliver(48 * HOUR);
    expect(actions()).toHaveLength(2);
  });
});
