import type { RequestHandler } from 'express';
import { fieldsOf } from '../dead-letter.ts';
import type { EmulatorState } from '../state.ts';

const RECENT_MS = 5 * 60_000;

export interface About {
  readonly scenario: string;
  readonly description: string;
  readonly seed: number;
  readonly speed: number;
  /** The endpoints of the service that are emulated, such as `GET /v2/dlq`. */
  readonly endpoints: readonly string[];
}

/** What the emulator holds, counted row by row; for people and for tests that run elsewhere. */
export function showState(state: EmulatorState, { scenario, seed, speed }: About): RequestHandler {
  return (_request, response) => {
    const { now, dlq } = state.current();
    const byQueue = new Map<string, number>();
    const byResponseStatus = new Map<string, number>();
    const count = (counts: Map<string, number>, key: string) => counts.set(key, (counts.get(key) ?? 0) + 1);
    dlq.forEach(entry => {
      count(byQueue, fieldsOf(entry).queueName ?? '(no queue)');
      count(byResponseStatus, String(entry.responseStatus));
    });
    response.json({
      now,
      scenario,
      seed,
      speed,
      calls: state.calls(),
      dlq: {
        total: dlq.size,
        byQueue: Object.fromEntries(byQueue),
        byResponseStatus: Object.fromEntries(byResponseStatus),
      },
      events: { windowMs: RECENT_MS, byState: state.countEvents({ from: now - RECENT_MS, to: now }) },
      waitlists: Object.fromEntries(state.waitlists()),
    });
  };
}

/** A page that says what this is. */
export function showHome({ scenario, description, endpoints }: About): RequestHandler {
  const text = [
    'An emulator of a hosted message-delivery service: made-up messages, none of them is ever sent.',
    '',
    `Scenario ${scenario}: ${description}.`,
    '',
    'With a bearer token:',
    ...endpoints.map(endpoint => `  ${endpoint}`),
    '',
    'Without one, what the emulator itself knows:',
    '  GET /_emulator/state',
    '',
  ].join('\n');
  return (_request, response) => {
    response.type('text/plain').send(text);
  };
}
