import type { IncomingMessage, ServerResponse } from 'node:http';

/** Maximum size of a write (bytes), small enough to observe each client's progress. */
const CHUNK = 256 * 1024;

/** Calls `over` when the response is complete or the connection is closed, possibly at once. */
export function whenOver({ socket }: IncomingMessage, response: ServerResponse, over: () => void): void {
  if (socket.destroyed || response.closed) {
    over();
    return;
  }
  const end = () => {
    socket.off('close', end);
    response.off('close', end);
    over();
  };
  // A waiting pipelined response gets no `close` event when the connection ends.
  socket.on('close', end);
  response.on('close', end);
}

interface PendingResponse {
  readonly request: IncomingMessage;
  readonly body: Buffer;
}

export type ResponseLimiter = ReturnType<typeof createResponseLimiter>;

const FEW = 2;

/** Limits unread responses to `maxBytes` or two different bodies. Above the limit, disconnects the clients that have been idle longest. */
export function createResponseLimiter(maxBytes: number, onCut: (request: IncomingMessage) => void) {
  const waiting = new Set<PendingResponse>();
  const holders = new Map<Buffer, number>();
  let bytes = 0;

  function release(pending: PendingResponse): void {
    if (!waiting.delete(pending)) return;
    const left = (holders.get(pending.body) as number) - 1;
    if (left > 0) {
      holders.set(pending.body, left);
    } else {
      holders.delete(pending.body);
      bytes -= pending.body.length;
    }
  }

  function evictFor(newest: Buffer): void {
    for (const pending of waiting) {
      if (bytes <= maxBytes || holders.size <= FEW) return;
      if (pending.body === newest) continue;
      onCut(pending.request);
      release(pending);
      pending.request.socket.destroy();
    }
  }

  return {
    /** Whether more than half of the limit is used. A few concurrent clients never need that much. */
    isCrowded: () => holders.size > FEW && bytes > maxBytes / 2,
    /** Sends `body` without copying it. `end`: ends the response with the last part. */
    send(request: IncomingMessage, response: ServerResponse, body: Buffer, end: (last: Buffer) => void): void {
      const pending = { request, body };
      waiting.add(pending);
      if (!holders.has(body)) bytes += body.length;
      holders.set(body, (holders.get(body) ?? 0) + 1);
      evictFor(body);
      whenOver(request, response, () => release(pending));
      let sent = 0;
      const next = () => {
        if (waiting.delete(pending)) waiting.add(pending);
        if (body.length - sent <= CHUNK) return end(body.subarray(sent));
        response.write(body.subarray(sent, sent + CHUNK), error => {
          if (!error) next();
        });
        sent += CHUNK;
      };
      next();
    },
  };
}
