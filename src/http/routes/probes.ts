import type { IncomingMessage, ServerResponse } from 'node:http';
import { Router } from 'express';
import { READ } from './methods.ts';

const PROBES: Readonly<Record<string, string>> = {
  '/-/healthy': 'delivery-watch is healthy\n',
  '/-/ready': 'delivery-watch is ready\n',
};

/** Serves only the probes, for a port without a gate. */
export function sendProbe(request: IncomingMessage, response: ServerResponse): void {
  const text = PROBES[request.url?.split('?', 1)[0] ?? ''];
  const isRead = request.method === 'GET' || request.method === 'HEAD';
  response.writeHead(text === undefined ? 404 : isRead ? 200 : 405, {
    'Content-Type': 'text/plain; charset=utf-8',
    'X-Content-Type-Options': 'nosniff',
    ...(isRead ? {} : { Allow: READ, Connection: 'close' }),
  });
  response.end(text === undefined ? 'not found\n' : isRead ? text : 'method not allowed\n');
}

/**
 * Creates the probe routes, which always succeed. Readiness does not depend on the service, because an unready
 * sidecar stops traffic to its application.
 */
export const probeRoutes = (): Router =>
  Router().all(Object.keys(PROBES), (request, response) => sendProbe(request, response));
