import type { IncomingMessage, ServerResponse } from 'node:http';

/** Bytes that are handed to a connection at a time, so that it shows which clients take theirs. */
const CHUNK = 256 * 1024;

/** Calls `over` once the answer was taken whole or the connection is gone: at once where that has been already. */
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
  // An answer that waits for its turn on a connection hears nothing of its end.
  socket.on('close', end);
  response.on('close', end);
}

interface Answer {
  readonly request: IncomingMessage;
  readonly body: Buffer;
}

/** Responses that clients have not completely read. */
export type Answers = ReturnType<typeof createAnswers>;

/** Different bodies that are never too many. */
const FEW = 2;

/**
 * Holds what is not taken to `mostBytes`, each different body counted once, and never less than two: the
 * connections that have been idle longest are cut in favour of new responses. `onCut` is called for each.
 */
export function createAnswers(mostBytes: number, onCut: (request: IncomingMessage) => void) {
  /** In the order in which they took something last. */
  const waiting = new Set<Answer>();
  const holders = new Map<Buffer, number>();
  let bytes = 0;

  function release(answer: Answer): void {
    if (!waiting.delete(answer)) return;
    const left = (holders.get(answer.body) as number) - 1;
    if (left > 0) {
      holders.set(answer.body, left);
    } else {
      holders.delete(answer.body);
      bytes -= answer.body.length;
    }
  }

  function makeRoom(newest: Buffer): void {
    for (const answer of waiting) {
      if (bytes <= mostBytes || holders.size <= FEW) return;
      if (answer.body === newest) continue;
      onCut(answer.request);
      release(answer);
      answer.request.socket.destroy();
    }
  }

  return {
    /** Whether half of the limit is used: more than a few concurrent clients need. */
    isCrowded: () => holders.size > FEW && bytes > mostBytes / 2,
    /** Sends `body` without a copy: clients may share it. `end` ends the response with the last part. */
    send(request: IncomingMessage, response: ServerResponse, body: Buffer, end: (last: Buffer) => void): void {
      const answer = { request, body };
      waiting.add(answer);
      if (!holders.has(body)) bytes += body.length;
      holders.set(body, (holders.get(body) ?? 0) + 1);
      makeRoom(body);
      whenOver(request, response, () => release(answer));
      let sent = 0;
      const next = () => {
        if (waiting.delete(answer)) waiting.add(answer);
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
