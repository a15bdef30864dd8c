import { json, type RequestHandler, Router } from 'express';
import type { Credentials } from '../credentials.ts';
import { fieldsOf } from '../dead-letter.ts';
import { readFaults } from '../fault.ts';
import type { Faults } from '../faults.ts';
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

export interface InsideParts {
  readonly state: EmulatorState;
  readonly credentials: Credentials;
  readonly faults: Faults;
  readonly about: About;
}

/** What the service does not have: a page about the emulator, what it really holds, and its faults. Wants no token. */
export function createInside(parts: InsideParts): Router {
  const { faults, about } = parts;
  const router = Router({ strict: true, caseSensitive: true });
  router.get('/', showHome(about));
  router.get('/_emulator/state', showState(parts));
  const showFaults: RequestHandler = (_request, response) => void response.json({ faults: faults.list() });
  router.get('/_emulator/faults', showFaults);
  router.post('/_emulator/faults', json(), (request, response, next) => {
    try {
      faults.replace(readFaults(request.body));
    } catch (error) {
      response.status(400).json({ error: (error as Error).message });
      return;
    }
    next();
  });
  router.delete('/_emulator/faults', (_request, _response, next) => {
    faults.clear();
    next();
  });
  router.post('/_emulator/faults', showFaults);
  router.delete('/_emulator/faults', showFaults);
  return router;
}

/** Counted row by row; for people and for tests that run elsewhere. */
function showState({ state, credentials, faults, about }: InsideParts): RequestHandler {
  const { scenario, seed, speed } = about;
  return (_request, response) => {
    const { now, dlq, workflows } = state.current();
    const byQueue = new Map<string, number>();
    const byResponseStatus = new Map<string, number>();
    const count = (counts: Map<string, number>, key: string) => counts.set(key, (counts.get(key) ?? 0) + 1);
    for (const timeline of [dlq, workflows])
      timeline.forEach(entry => {
        count(byQueue, fieldsOf(entry).queueName ?? '(no queue)');
        count(byResponseStatus, String(entry.responseStatus));
      });
    response.json({
      now,
      scenario,
      seed,
      speed,
      dialect: state.dialect,
      calls: state.calls(),
      dlq: {
        total: dlq.size + workflows.size,
        ofWorkflows: workflows.size,
        byQueue: Object.fromEntries(byQueue),
        byResponseStatus: Object.fromEntries(byResponseStatus),
      },
      callbacks: { byState: state.countCallbacks(), cancels: state.cancels() },
      events: {
        windowMs: RECENT_MS,
        byState: state.countEvents({ from: now - RECENT_MS, to: now }),
      },
      eventsListedUntil: state.logView.until(now),
      waitlists: Object.fromEntries(state.waitlists()),
      tokenResets: credentials.resets,
      keyRotations: credentials.keyRotations,
      faults: faults.list(),
    });
  };
}

/** A page that says what this is. */
function showHome({ scenario, description, endpoints }: About): RequestHandler {
  const text = [
    'An emulator of a hosted message-delivery service: made-up messages, none of them is ever sent.',
    '',
    `Scenario ${scenario}: ${description}.`,
    '',
    'With a bearer token, and the last two with the name and password of the account:',
    ...endpoints.map(endpoint => `  ${endpoint}`),
    '',
    'Without one, what the emulator itself knows, and what goes wrong:',
    '  GET /_emulator/state',
    '  GET, POST, DELETE /_emulator/faults',
    '',
  ].join('\n');
  return (_request, response) => {
    response.type('text/plain').send(text);
  };
}
