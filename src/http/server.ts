import express, { type NextFunction, type Request, type Response } from 'express';
import type { Log } from '../kit/log.ts';
import { type Answers, createAnswers } from './answers.ts';
import { BOUNDS, type Bounds, createBoundLog } from './bounds.ts';
import { createGate, logCut } from './gate.ts';
import { type Address, type Listener, openListener } from './listener.ts';
import { autoCancelRoutes } from './routes/auto-cancel.ts';
import { metricsRoutes } from './routes/metrics.ts';
import { pageRoutes } from './routes/page.ts';
import { answerProbe, statusRoutes } from './routes/status.ts';
import type { Served } from './served.ts';

export type { ReloadAnswer, Served, ShownAlert } from './served.ts';

export interface ServerSettings extends Partial<Bounds>, Address {
  readonly allowedHosts?: readonly string[];
  /** A second port that has the probes alone, without the gate. */
  readonly probes?: Address | null;
}

export interface HttpServer {
  /** `http://host:port` of the open port. */
  readonly url: string;
  /**
   * Goes over to other settings; of the bounds, `maxConnections` alone. Where an address changes, the new port is open before the
   * old one closes, unless both are the same port number. Rejects, with nothing changed, when that can't be had.
   */
  apply(settings: ServerSettings): Promise<void>;
  /** Stops accepting, lets answers under way end for a moment, then cuts the rest. */
  close(): Promise<void>;
}

function createApp(served: Served, answers: Answers, log: Log): express.Express {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.use(metricsRoutes(served, answers));
  for (const routes of [statusRoutes, autoCancelRoutes, pageRoutes]) app.use(routes(served));
  app.use((_request: Request, response: Response) => void response.status(404).type('text').send('not found\n'));
  app.use((error: unknown, request: Request, response: Response, _next: NextFunction) => {
    const message = error instanceof Error ? error.message : String(error);
    log.error({ path: request.path, error: message }, 'a request failed');
    if (!response.headersSent) response.status(500).type('text').send('internal error\n');
  });
  return app;
}

interface Ports {
  readonly main: Listener;
  readonly probes: Listener | undefined;
}

/** Opens what `next` asks for beyond `before`. Rejects with nothing left open, and what was open before as it was. */
async function openPorts(
  next: ServerSettings,
  before: { readonly settings: ServerSettings; readonly ports: Ports } | undefined,
  open: (what: keyof Ports, address: Address) => Promise<Listener>,
): Promise<Ports> {
  async function port(what: keyof Ports, address: Address, was: Address | null | undefined): Promise<Listener> {
    const old = before?.ports[what];
    if (!old || !was) return open(what, address);
    if (address.host === was.host && address.port === was.port) return old;
    if (address.port !== old.port) return open(what, address);
    // Two addresses may stand for the same port of an interface.
    old.pause();
    return open(what, address).catch(async error => {
      await old.resume();
      throw error;
    });
  }
  const main = await port('main', next, before?.settings);
  try {
    return { main, probes: next.probes ? await port('probes', next.probes, before?.settings.probes) : undefined };
  } catch (error) {
    if (main !== before?.ports.main) await main.close();
    throw error;
  }
}

/** Rejects when an address can't be had, naming it. */
export async function startHttpServer(initial: ServerSettings, served: Served, log: Log): Promise<HttpServer> {
  const bounds = { ...BOUNDS, ...initial };
  const logBound = createBoundLog(log, served.clock);
  const answers = createAnswers(bounds.unreadBytes, request => logCut(logBound, request));
  let settings = initial;
  let hosts = new Set(initial.allowedHosts);
  const listeners = {
    main: createGate({ bounds, answers, hosts: () => hosts }, logBound, createApp(served, answers, log)),
    probes: answerProbe,
  };
  const deps = { bounds, logBound, log, clock: served.clock };
  const open = (what: keyof Ports, address: Address) => openListener(address, deps, listeners[what]);
  let ports = await openPorts(initial, undefined, open);
  /** Ports that were closed by `apply` and still have answers under way. */
  const closing = new Set<Promise<void>>();
  function retire(listener: Listener): void {
    const closed = listener.close().finally(() => closing.delete(closed));
    closing.add(closed);
  }

  return {
    get url() {
      return ports.main.url;
    },
    async apply(next) {
      const before = ports;
      ports = await openPorts(next, { settings, ports }, open);
      settings = next;
      hosts = new Set(next.allowedHosts);
      ports.main.setMaxConnections(next.maxConnections ?? BOUNDS.maxConnections);
      // The request that asked for this may have come by one of them: its answer is not waited for here.
      for (const [what, old] of [
        ['main', before.main],
        ['probes', before.probes],
      ] as const) {
        if (old && old !== ports[what]) retire(old);
      }
    },
    async close() {
      await Promise.all([ports.main.close(), ports.probes?.close(), ...closing]);
    },
  };
}
