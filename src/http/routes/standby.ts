import { type NextFunction, type Request, type Response, Router } from 'express';
import { forwardToPeer, isPeerRequest } from '../peer.ts';
import { whenOver } from '../response-limiter.ts';
import type { HttpServed, ProcessGroup } from '../served.ts';

/** Paths that a standby serves itself. Like routes, they ignore case and a slash at the end. */
const OWN = /^\/(metrics|metrics\/agent|-\/.*|assets\/.*|api\/v1\/sd)\/?$/i;

/** Returns the code of a network or TLS error instead of its message, which may contain text of the server. */
function causeOf(error: unknown): string {
  // After a timeout, the error is an AbortError with the timeout as its cause.
  const { cause = error } = error instanceof Error ? error : {};
  if (!(cause instanceof Error)) return '';
  return 'code' in cause && typeof cause.code === 'string' ? cause.code : cause.message;
}

function whyNot(leader: ReturnType<ProcessGroup['leader']>, cause: string | undefined): string {
  if (!leader) return 'this process is a standby, and no process leads now';
  const detail = cause ? ` (${cause})` : '';
  return `this process is a standby, and the leader ${leader.url}, which renewed its lease ${Math.max(0, Math.round(leader.age / 1000))} s ago, did not respond${detail}`;
}

/** Answers GET requests to a standby with the response of the leader. POST routes work in every process. */
export function standbyRoutes(served: HttpServed): Router {
  async function forward(request: Request, response: Response, next: NextFunction): Promise<void> {
    const { group, peerKey: key } = served;
    const isRead = request.method === 'GET' || request.method === 'HEAD';
    if (!group || group.isLeading() || !isRead || OWN.test(request.path)) return next();
    const leader = group.leader();
    let cause: string | undefined;
    if (isPeerRequest(request)) {
      // Forwarding the request again could be endless.
      cause = 'its request arrived at a standby: if this persists, correct server.replicaUrl of the leader';
    } else if (leader && key) {
      const gone = new AbortController();
      whenOver(request, response, () => gone.abort());
      const peer = { url: leader.url, key, isLocal: false };
      const found = await forwardToPeer(peer, request, gone.signal).catch((error: unknown) => {
        cause = causeOf(error);
      });
      if (response.destroyed) return;
      // The leader ended during the request, and this process leads now.
      if (!found && group.isLeading()) return next();
      if (found) {
        response.writeHead(found.status, found.headers);
        response.end(found.body);
        return;
      }
    }
    const error = whyNot(leader, cause);
    response.status(503).set('Retry-After', '5');
    if (request.path.startsWith('/api/')) response.json({ error });
    else response.type('text').send(`${error}\n`);
  }
  return Router().use(forward);
}
