import type { RequestHandler, Response } from 'express';
import type { Clock } from '../../kit/clock.ts';
import type { FaultSeed, Faults } from '../faults.ts';

const PAGE = '<!DOCTYPE html><html><head><title>502</title></head><body><h1>Bad gateway</h1></body></html>\n';
const DRIP_MS = 100;

/** Injects faults into responses. `clock`: real time. Aborting `closing` drops waiting requests. */
export function injectFaults(faults: Faults, clock: Clock, closing: AbortSignal, endpoint: string): RequestHandler {
  return async (request, response, next) => {
    const fault = faults.draw(endpoint);
    if (!fault) return next();
    const { latencyMs = 0, dateMs = 0 } = fault;
    const date = Date.parse(String(response.getHeader('date')));
    response.setHeader('date', new Date(date + dateMs).toUTCString());
    const closed = new AbortController();
    response.on('close', () => closed.abort());
    closing.addEventListener('abort', () => request.socket.destroy(), { once: true, signal: closed.signal });
    if (latencyMs > 0) await clock.sleep(latencyMs, closed.signal).catch(() => {});
    if (closed.signal.aborted) return;
    if (fault.kind === undefined) return next();
    if (fault.kind === 'truncate') truncate(response);
    else if (fault.kind === 'drip') drip(response, () => clock.sleep(fault.dripMs ?? DRIP_MS, closed.signal));
    else if (fault.acts) replaceEnd(response, () => sendWrong(fault, response));
    else return sendWrong(fault, response);
    next();
  };
}

/** Calls `end` with the complete body instead of sending it. The emulator's responses are a single chunk. */
function replaceEnd(response: Response, end: (chunk: Buffer) => void): void {
  const original = response.end;
  const replacement = (chunk?: unknown) => {
    response.end = original;
    end(Buffer.from(typeof chunk === 'string' || Buffer.isBuffer(chunk) ? chunk : ''));
    return response;
  };
  response.end = replacement as Response['end'];
}

/** Sends an unrelated response, or none. */
function sendWrong({ kind, status, retryAfter }: FaultSeed, response: Response): void {
  if (kind === 'hang') return;
  if (kind === 'reset') return void response.socket?.resetAndDestroy();
  for (const name of response.getHeaderNames()) response.removeHeader(name);
  if (kind === 'html')
    response
      .status(status ?? 200)
      .type('html')
      .send(PAGE);
  else {
    if (retryAfter !== undefined) response.set('Retry-After', String(retryAfter));
    response.status(status ?? 503).json({ error: 'service unavailable' });
  }
}

/** Sends half of the announced body, then closes the connection. */
function truncate(response: Response): void {
  replaceEnd(response, body => {
    response.setHeader('Content-Length', Math.max(body.length, 1));
    response.flushHeaders();
    const half = body.subarray(0, body.length >> 1);
    // Half-close the connection, so that the written part arrives.
    if (half.length === 0) response.socket?.end();
    else response.write(half, () => response.socket?.end());
  });
}

function drip(response: Response, wait: () => Promise<void>): void {
  replaceEnd(response, async body => {
    response.flushHeaders();
    try {
      for (let byte = 0; byte < body.length; byte++) {
        await wait();
        response.write(body.subarray(byte, byte + 1));
      }
      response.end();
    } catch {
      // The client disconnected, or the emulator is closing.
    }
  });
}
