import { z } from 'zod';
import { json, serve } from './http-service.ts';

const url = z.url({ protocol: /^https?$/ });
const text = z.string().min(1).max(1024);
const shared = {
  routing_key: z.string().length(32),
  dedup_key: z.string().min(1).max(255),
};

/** The documented schema of alert events (Events API v2). Rejects unknown keys, and images, which are never sent. */
export const alertEvent = z.discriminatedUnion('event_action', [
  z.strictObject({
    ...shared,
    event_action: z.literal('trigger'),
    payload: z.strictObject({
      summary: text,
      source: text,
      severity: z.enum(['critical', 'error', 'warning', 'info']),
      timestamp: z.iso.datetime({ offset: true }),
      component: text.optional(),
      group: text.optional(),
      class: text.optional(),
      custom_details: z.record(z.string(), z.string()).optional(),
    }),
    links: z.array(z.strictObject({ href: url, text: text.optional() })).optional(),
    client: text.optional(),
    client_url: url.optional(),
  }),
  z.strictObject({ ...shared, event_action: z.literal('resolve') }),
]);

export type AlertEvent = z.output<typeof alertEvent>;

/** Documented maximum size of an event (bytes). */
const MAX_BYTES = 512 * 1024;

/** Starts an event receiver that is closed after the test. It responds as documented, or with `status` if that is set. */
export async function startPagerduty(routingKey: string) {
  const pagerduty = {
    url: '',
    /** Accepted events in order. */
    events: [] as AlertEvent[],
    /** Reasons for rejected events. */
    errors: [] as string[],
    /** Keys of open alerts, and the number of alerts ever opened. */
    open: new Set<string>(),
    opened: 0,
    requests: 0,
    status: undefined as number | undefined,
    /** Whether accepted events get no response. */
    isSilent: false,
  };
  function accept(event: AlertEvent): void {
    pagerduty.events.push(event);
    if (event.event_action === 'resolve') pagerduty.open.delete(event.dedup_key);
    else if (!pagerduty.open.has(event.dedup_key)) {
      pagerduty.open.add(event.dedup_key);
      pagerduty.opened += 1;
    }
  }
  const service = await serve((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', chunk => {
      body += chunk;
    });
    request.on('end', () => {
      pagerduty.requests += 1;
      if (pagerduty.status !== undefined) return void response.writeHead(pagerduty.status).end();
      const isJson = request.headers['content-type'] === 'application/json';
      const isPost = request.method === 'POST' && request.url === '/v2/enqueue';
      const event = alertEvent.safeParse(isJson && isPost ? JSON.parse(body) : undefined);
      const invalid = event.success
        ? []
        : event.error.issues.map(({ path, message }) => `${path.join('.')} ${message}`);
      const isOurs = event.data?.routing_key === routingKey;
      if (event.success && !isOurs) invalid.push("Length of 'routing_key' is incorrect (should be 32 characters)");
      if (Buffer.byteLength(body) > MAX_BYTES) invalid.push('too large');
      pagerduty.errors.push(...invalid);
      if (!event.success || invalid.length > 0) {
        const answer = { status: 'invalid event', message: 'Event object is invalid', errors: invalid };
        return json(response, answer, 400);
      }
      accept(event.data);
      const answer = { status: 'success', message: 'Event processed', dedup_key: event.data.dedup_key };
      if (!pagerduty.isSilent) json(response, answer, 202);
    });
  });
  pagerduty.url = `${service.url}/v2/enqueue`;
  return pagerduty;
}
