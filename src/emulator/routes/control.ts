import { json, type RequestHandler, Router } from 'express';
import { z } from 'zod';
import type { EmulatedCredentials } from '../credentials.ts';
import { changeDialect } from '../dialect.ts';
import { type Faults, readFaults } from '../faults.ts';
import type { EmulatorState } from '../state.ts';

export interface About {
  readonly scenario: string;
  readonly description: string;
  readonly seed: number;
  readonly speed: number;
  readonly accounts: number;
  readonly endpoints: readonly string[];
}

interface ControlParts {
  readonly state: EmulatorState;
  readonly credentials: EmulatedCredentials;
  readonly faults: Faults;
  readonly about: About;
}

interface Setting {
  readonly path: string;
  readonly help: string;
  show(): object;
  /** Throws a RangeError for an invalid body. */
  change(body: unknown): void;
  clear?(): void;
}

/** Creates the emulator's control API, which needs no token. */
export function createControl(parts: ControlParts): Router {
  const all = settings(parts);
  const router = Router({ strict: true, caseSensitive: true });
  router.get('/', showHome(parts.about, all));
  router.get('/_emulator/state', showState(parts));
  for (const { path, show, change, clear } of all) {
    router.get(path, (_request, response) => void response.json(show()));
    router.post(path, json(), (request, response) => {
      try {
        change(request.body);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        response.status(400).json({ error: error.message });
        return;
      }
      response.json(show());
    });
    if (clear) {
      router.delete(path, (_request, response) => {
        clear();
        response.json(show());
      });
    }
  }
  return router;
}

const LogSwitch = z.strictObject({ on: z.boolean() });

function settings({ state, faults }: ControlParts): Setting[] {
  const { logView } = state;
  return [
    {
      path: '/_emulator/faults',
      help: 'active faults: one fault or a list, which replaces all others',
      show: () => ({ faults: faults.list() }),
      change: body => faults.replace(readFaults(body)),
      clear: () => faults.clear(),
    },
    {
      path: '/_emulator/log',
      help: 'whether the service writes its event log: {"on": false}; events in the meantime are never listed',
      show: () => ({ on: logView.on }),
      change(body) {
        const { data } = LogSwitch.safeParse(body);
        if (!data) throw new RangeError('invalid log: it must be {"on": true} or {"on": false}');
        // Listed events stay listed, so the change applies to later ones.
        const next = state.current().now + 1;
        if (data.on) logView.resume(next);
        else logView.stop(next);
      },
    },
    {
      path: '/_emulator/dialect',
      help: 'API variant, such as {"eventTime": "number"}; omitted options keep their value',
      show: () => ({ dialect: state.dialect }),
      change: body => changeDialect(state.dialect, body),
    },
  ];
}

function showHome({ scenario, description, accounts, endpoints }: About, all: readonly Setting[]): RequestHandler {
  const text = [
    'Emulator of a hosted message-delivery service. Its messages are made up and never sent.',
    '',
    `Scenario ${scenario}: ${description}.`,
    '',
    'With a bearer token; the last ones with user name and password of the account:',
    ...endpoints.map(endpoint => `  ${endpoint}`),
    '',
    'Without a token: state and settings of the emulator. POST JSON to change settings:',
    '  GET /_emulator/state',
    ...all.flatMap(({ path, help, clear }) => [`  GET, POST${clear ? ', DELETE' : ''} ${path}`, `      ${help}`]),
    '',
    `Accounts: ${accounts}, each with its own token and rows. These paths are for the first; use /_emulator/accounts/N/state etc. for account N.`,
    '',
  ].join('\n');
  return (_request, response) => {
    response.type('text/plain').send(text);
  };
}

const RECENT_MS = 5 * 60_000;

/** Returns a handler that shows the state, which is counted independently of the emulated API. */
function showState({ state, credentials, faults, about }: ControlParts): RequestHandler {
  const { scenario, seed, speed } = about;
  return (_request, response) => {
    const { now, dlq, workflows, log } = state.current();
    const { lost } = state.logView;
    const byQueue = new Map<string, number>();
    const byResponseStatus = new Map<string, number>();
    const count = (counts: Map<string, number>, key: string) => counts.set(key, (counts.get(key) ?? 0) + 1);
    for (const timeline of [dlq, workflows])
      timeline.forEach(entry => {
        count(byQueue, entry.fields.queueName ?? '(no queue)');
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
      callbacks: {
        byState: state.countCallbacks(),
        cancels: state.cancels(),
        cancelCalls: state.tally.cancelCalls,
      },
      events: {
        windowMs: RECENT_MS,
        byState: state.countEvents({ from: now - RECENT_MS, to: now }),
        // `logged`: retained events, each once, whether listed or not. `lost`: events that are never listed. `total`:
        // including expired events.
        logged: { byState: state.countEvents() },
        lost: { byState: state.countEvents({ within: lost ?? (() => false) }) },
        total: { byState: log.total },
      },
      eventsListedUntil: state.logView.until(now),
      log: { on: state.logView.on },
      waitlists: Object.fromEntries(state.waitlists()),
      tokenResets: credentials.resets,
      keyRotations: credentials.keyRotations,
      faults: faults.list(),
    });
  };
}
