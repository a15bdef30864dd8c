import type { IncomingMessage, ServerResponse } from 'node:http';

/** Maximum size of a write (bytes), small enough to observe each client's progress. With TLS, a pending write is a copy. */
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

export type ResponseLimiter = ReturnType<typeof createResponseLimiter>;

const FEW = 2;

/** Limits unread responses to `maxBytes`, but allows two bodies. Above the limit, disconnects clients that are idle longest. */
export function createResponseLimiter(maxBytes: number, onCut: (request: IncomingMessage) => void) {
  /** Bodies of unread responses. The client that has been idle longest is first. */
  const unread = new Map<IncomingMessage, Buffer>();

  function exceeds(bytes: number): boolean {
    const bodies = new Set(unread.values());
    return bodies.size > FEW && bodies.values().reduce((sum, { length }) => sum + length, 0) > bytes;
  }

  return {
    /** Whether more than half of the limit is used. A few concurrent clients never need that much. */
    isCrowded: () => exceeds(maxBytes / 2),
    /** Sends `body` without copying it. `end`: ends the response with the last part. */
    send(request: IncomingMessage, response: ServerResponse, body: Buffer, end: (last: Buffer) => void): void {
      unread.set(request, body);
      for (const [other, held] of unread) {
        if (!exceeds(maxBytes)) break;
        // Cutting a response with the same body would not free memory.
        if (held === body) continue;
        unread.delete(other);
        onCut(other);
        other.socket.destroy();
      }
      whenOver(request, response, () => unread.delete(request));
      let sent = 0;
      const next = () => {
        if (unread.delete(request)) unread.set(request, body);
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
