import { retryAfterMs } from '../../kit/retry-after.ts';
import type { Tracer } from '../../kit/tracer.ts';
import type { Reply } from '../../upstream/post.ts';
import type { Group, Grouping } from '../group.ts';
import type { Notice } from '../notice.ts';

/** Sends one POST of JSON. No redirect is followed. Rejects where there is no answer in time. */
export type Post = (
  url: string,
  request: { readonly headers: Readonly<Record<string, string>>; readonly body: string; readonly signal: AbortSignal },
) => Promise<Reply>;

export type Answer =
  | { readonly kind: 'accepted' }
  /** The content was not understood, and would not be the next time. */
  | { readonly kind: 'refused'; readonly why: string }
  /** Later perhaps, after `retryAfter` milliseconds at least. `isDown`: so would anything else that is sent now. */
  | { readonly kind: 'failed'; readonly why: string; readonly isDown: boolean; readonly retryAfter?: number };

export interface Receiver {
  readonly notifier: string;
  /** Which of the notifier's addresses it is: the first is 0. */
  readonly member: number;
  /** `state`: what fires, again and again. `changes`: when an alert begins to fire, and when it is resolved. */
  readonly wants: 'state' | 'changes';
  /** How changes are put together for it; undefined: each is sent by itself. */
  readonly grouping?: Grouping | undefined;
  /** Rejects only when the signal is aborted. A receiver of changes gets those of one group, or one notice. */
  send(notices: readonly Notice[], signal: AbortSignal, group?: Group): Promise<Answer>;
}

export interface NotifierDeps {
  readonly notifier: string;
  readonly post: Post;
  readonly now: () => number;
  readonly externalUrl: string;
}

/** How sending ended, counted for each notice and address. `failed`: it is tried again. `dropped`: it is not. */
export const OUTCOMES = ['sent', 'failed', 'dropped'] as const;

export interface Meaning {
  /** Of the statuses, those that mean that the content was not understood. */
  isRefusal(status: number): boolean;
  /** The error that a body names, a closed word; undefined when it names none. */
  errorIn?(text: string): string | undefined;
}

/** Posts, and reads the answer. Rejects only when the signal is aborted. */
export async function postNotices(
  { post, now }: Pick<NotifierDeps, 'post' | 'now'>,
  url: string,
  request: Parameters<Post>[1],
  { isRefusal, errorIn }: Meaning,
): Promise<Answer> {
  try {
    const { status, retryAfter, text } = await post(url, request);
    const error = errorIn?.(text);
    const why = error === undefined ? `status ${status}` : `status ${status}, ${error}`;
    if (status >= 200 && status < 300) return error === undefined ? { kind: 'accepted' } : { kind: 'refused', why };
    if (isRefusal(status)) return { kind: 'refused', why };
    const isDown = status === 429 || status === 503;
    const wait = isDown ? retryAfterMs(retryAfter, now()) : undefined;
    return { kind: 'failed', why, isDown, ...(wait === undefined ? {} : { retryAfter: wait }) };
  } catch (error) {
    if (request.signal.aborted) throw error;
    const { code, name } = error as { readonly code?: unknown; readonly name?: string };
    // Never the message: it may hold the address, and that a secret.
    return { kind: 'failed', why: typeof code === 'string' ? code : (name ?? 'error'), isDown: true };
  }
}

export function traced(receiver: Receiver, tracer: Tracer): Receiver {
  const { notifier, member } = receiver;
  return {
    ...receiver,
    send: (notices, signal, group) =>
      tracer.span(
        'notify',
        { notifier, member, alerts: notices.length },
        async span => {
          const answer = await receiver.send(notices, signal, group);
          span.set({ outcome: answer.kind });
          if (answer.kind !== 'accepted') span.fail(answer.kind);
          return answer;
        },
        'client',
      ),
  };
}
