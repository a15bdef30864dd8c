import { request as undiciRequest } from 'undici';
import type { Post } from '../alerts/notifiers/receiver.ts';
import { withDeadline } from '../kit/clock.ts';
import { createDispatcher } from '../upstream/dispatcher.ts';
import { untilAborted } from '../upstream/send.ts';

/** Milliseconds for a whole request, connecting included. */
const TIMEOUT = 10_000;
/** Bytes of an answer that are read, so that the connection can be used again; of a longer one it is closed. */
const MOST_READ = 64 * 1024;

/** A way to post to receivers of alerts: no proxy, no redirect, bounded in time and size. */
export function createPost(timeout = TIMEOUT): { readonly post: Post; close(): Promise<void> } {
  const dispatcher = createDispatcher({ connectTimeout: timeout });
  return {
    post: (url, { headers, body, signal }) =>
      withDeadline(timeout, signal, async deadline => {
        const request = undiciRequest(url, { dispatcher, method: 'POST', headers, body, signal: deadline });
        const answer = await untilAborted(request, deadline);
        // The status alone counts, also of a body that breaks off.
        await answer.body.dump({ limit: MOST_READ, signal: deadline }).catch(() => undefined);
        return { status: answer.statusCode };
      }),
    close: () => dispatcher.destroy(),
  };
}
