import { request as undiciRequest } from 'undici';
import { withDeadline } from '../kit/clock.ts';
import { createDispatcher } from './dispatcher.ts';
import { untilAborted } from './send.ts';

export interface Reply {
  readonly status: number;
  readonly retryAfter?: string | readonly string[] | undefined;
  readonly text: string;
}

/** Timeout of a request, including connecting (ms). */
const TIMEOUT = 10_000;
/** Time for the response when the agent stops during a request (ms). Without a response, the request is sent again later. */
const GRACE = 2000;
/** Maximum number of bytes to drain from a response so that its connection can be reused. */
const MAX_READ = 64 * 1024;
/** Maximum number of characters of a response to keep: enough for a receiver's error message. */
const MAX_KEPT = 1024;

/** Returns the start of a body, even if reading it fails, because the status of the response is still valid. */
async function startOf(body: AsyncIterable<Buffer> & { destroy(): unknown }): Promise<string> {
  let text = '';
  let read = 0;
  try {
    for await (const chunk of body) {
      if (text.length < MAX_KEPT) text += chunk.toString('latin1').slice(0, MAX_KEPT - text.length);
      read += chunk.length;
      if (read > MAX_READ) break;
    }
  } catch {}
  return text;
}

interface PostRequest {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly signal: AbortSignal;
}

/** Client for receivers: no proxy, no redirects, bounded in time and size. */
export type ReceiverClient = ReturnType<typeof createPost>;

export function createPost(timeout = TIMEOUT) {
  const dispatcher = createDispatcher({ connectTimeout: timeout });
  const send = (
    url: string,
    { signal, ...options }: { readonly method: 'GET' | 'POST'; readonly signal: AbortSignal } & Partial<PostRequest>,
  ) =>
    withDeadline(
      timeout,
      signal,
      async (deadline): Promise<Reply> => {
        const request = undiciRequest(url, { dispatcher, ...options, signal: deadline });
        const { statusCode, headers, body } = await untilAborted(request, deadline);
        return {
          status: statusCode,
          retryAfter: headers['retry-after'],
          text: await startOf(body),
        };
      },
      GRACE,
    );
  return {
    post: (url: string, request: PostRequest) => send(url, { ...request, method: 'POST' }),
    get: (url: string, signal: AbortSignal) => send(url, { method: 'GET', signal }),
    close: (): Promise<void> => dispatcher.destroy(),
  };
}
