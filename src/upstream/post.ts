import { request as undiciRequest } from 'undici';
import { withDeadline } from '../kit/clock.ts';
import { createDispatcher } from './dispatcher.ts';
import { untilAborted } from './send.ts';

export interface Reply {
  readonly status: number;
  readonly retryAfter?: string | undefined;
  readonly text: string;
}

/** Milliseconds for a whole request, connecting included. */
const TIMEOUT = 10_000;
/** Bytes of an answer that are read, so that the connection can be used again; of a longer one it is closed. */
const MOST_READ = 64 * 1024;

/** Characters of an answer that are kept: what a receiver says of an error is shorter. */
const MOST_KEPT = 1024;

/** The begin of a body. The status alone counts, also of a body that breaks off. */
async function beginOf(body: AsyncIterable<Buffer> & { destroy(): unknown }): Promise<string> {
  let text = '';
  let read = 0;
  try {
    for await (const chunk of body) {
      if (text.length < MOST_KEPT) text += chunk.toString('latin1').slice(0, MOST_KEPT - text.length);
      read += chunk.length;
      if (read > MOST_READ) break;
    }
  } catch {}
  return text;
}

interface PostRequest {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
  readonly signal: AbortSignal;
}

/** Requests to receivers: no proxy, no redirect, bounded in time and size. */
export type Asking = ReturnType<typeof createPost>;

export function createPost(timeout = TIMEOUT) {
  const dispatcher = createDispatcher({ connectTimeout: timeout });
  const ask = (
    url: string,
    { signal, ...options }: { readonly method: 'GET' | 'POST'; readonly signal: AbortSignal } & Partial<PostRequest>,
  ) =>
    withDeadline(timeout, signal, async (deadline): Promise<Reply> => {
      const request = undiciRequest(url, { dispatcher, ...options, signal: deadline });
      const { statusCode, headers, body } = await untilAborted(request, deadline);
      const retryAfter = headers['retry-after'];
      return {
        status: statusCode,
        retryAfter: typeof retryAfter === 'string' ? retryAfter : undefined,
        text: await beginOf(body),
      };
    });
  return {
    /** Sends one POST. Rejects if there is no response in time. */
    post: (url: string, request: PostRequest) => ask(url, { ...request, method: 'POST' }),
    /** Sends one GET. Rejects if there is no response in time. */
    get: (url: string, signal: AbortSignal) => ask(url, { method: 'GET', signal }),
    close: (): Promise<void> => dispatcher.destroy(),
  };
}
