import { type NextFunction, type Request, type Response, Router } from 'express';
import { forwardToPeer, isPeerRequest } from '../peer.ts';
import { whenOver } from '../response-limiter.ts';
import type { HttpServed, ProcessGroup } from '../served.ts';
import type { Lifecycle } from './lifecycle.ts';

/** Paths that a standby serves itself. */
const OWN = /^\/(metrics|metrics\/agent|-\/.*|assets\/.*|api\/v1\/(sd|stream))$/;

const seconds = (ms: number) => `${Math.max(0, Math.round(ms / 1000))} s`;

function whyNot(leader: ReturnType<ProcessGroup['leader']>): string {
  if (!leader) return 'this process is a standby, and no process leads now';
  return `this process is a standby, and the leader ${leader.url}, which renewed its lease ${seconds(leader.age)} ago, did not respond`;
}

/** Answers GET requests to a standby with the response of the leader. POST routes work in every process. */
export function standbyRoutes(served: HttpServed, { callerOf }: Lifecycle): Router {
  async function forward(request: Request, response: Response, next: NextFunction): Promise<void> {
    const { group, peerKey: key } = served;
    const isRead = request.method === 'GET' || request.method === 'HEAD';
    if (!group || group.isLeading() || !isRead || OWN.test(request.path)) return next();
    const leader = group.leader();
    // A leader that has just restarted as a standby must not forward the request again.
    if (leader && key && !isPeerRequest(request)) {
      const gone = new AbortController();
      whenOver(request, response, () => gone.abort());
      const peer = { url: leader.url, key, isLocal: false };
      const found = await forwardToPeer(peer, request, callerOf(request), gone.signal).catch(() => undefined);
      if (response.destroyed) return;
      if (found) {
        response.writeHead(found.status, found.headers);
        response.end(found.body);
        return;
      }
    }
    const error = whyNot(leader);
    response.status(503).set('Retry-After', '5');
    if (request.path.startsWith('/api/')) response.json({ error });
    else response.type('text').send(`${error}\n`);
  }
  return Router().use(forward);
}
