import type { Request, RequestHandler, Response } from 'express';
import type { Clock } from '../../kit/clock.ts';
import type { FaultSeed, Faults } from '../faults.ts';

const PAGE = '<!DOCTYPE html><html><head><title>502</title></head><body><h1>Bad gateway</h1></body></html>\n';
const DRIP_MS = 100;

/** Strikes requests with faults, on the wire. Once `closing` is aborted, requests that wait get no answer. `clock` is real time. */
export function injectFaults(
  faults: Faults,
  clock: Clock,
  closing: AbortSignal,
  endpointOf: (request: Request) => string,
): RequestHandler {
  return async (request, response, next) => {
    const struck = faults.draw(endpointOf(request));
    if (!struck) return next();
    const { fault, delayMs } = struck;
    const gone = new AbortController();
    response.on('close', () => gone.abort());
    closing.addEventListener('abort', () => request.socket.destroy(), { once: true, signal: gone.signal });
    if (delayMs > 0) await clock.sleep(delayMs, gone.signal).catch(() => {});
    if (gone.signal.aborted) return;
    if (fault.kind === undefined) return next();
    if (fault.kind === 'truncate') truncate(response);
    else if (fault.kind === 'drip') drip(response, () => clock.sleep(fault.dripMs ?? DRIP_MS, gone.signal));
    else if (fault.acts) replaceEnd(response, () => answerWrong(fault, response));
    else return answerWrong(fault, response);
    next();
  };
}

/** Calls `end` with the whole body instead of sending it. Every answer of ours is one chunk. */
function replaceEnd(response: Response, end: (chunk: Buffer) => void): void {
  const original = response.end;
  const replacement = (chunk?: unknown) => {
    response.end = original;
    end(Buffer.from(typeof chunk === 'string' || Buffer.isBuffer(chunk) ? chunk : ''));
    return response;
  };
  response.end = replacement as Response['end'];
}

/** An answer, or none, that has nothing to do with the request. */
function answerWrong({ kind, status, retryAfter }: FaultSeed, response: Response): void {
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

/** Half of the body that was announced, then the end of the connection. */
function truncate(response: Response): void {
  replaceEnd(response, body => {
    response.setHeader('Content-Length', Math.max(body.length, 1));
    response.flushHeaders();
    const half = body.subarray(0, body.length >> 1);
    // Not destroyed at once, so that what was written arrives.
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
      // The client has gone, or the emulator is closing.
    }
  });
}
