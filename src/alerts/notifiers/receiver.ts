import type { Tracer } from '../../kit/tracer.ts';
import type { Notice } from '../notice.ts';

/** Sends one POST of JSON and gives its status. No redirect is followed. Rejects where there is no answer in time. */
export type Post = (
  url: string,
  request: { readonly headers: Readonly<Record<string, string>>; readonly body: string; readonly signal: AbortSignal },
) => Promise<{ readonly status: number }>;

/** What came of sending. */
export type Answer =
  | { readonly kind: 'accepted' }
  /** The content was not understood, and would not be the next time. */
  | { readonly kind: 'refused'; readonly why: string }
  /** Later perhaps. `isDown`: so would anything else that is sent now. */
  | { readonly kind: 'failed'; readonly why: string; readonly isDown: boolean };

/** One address that alerts are sent to. */
export interface Receiver {
  /** Name of the notifier that it belongs to. */
  readonly notifier: string;
  /** Which of the notifier's addresses it is: the first is 0. */
  readonly member: number;
  /** `state`: what fires, again and again. `changes`: when an alert begins to fire, and when it is resolved. */
  readonly wants: 'state' | 'changes';
  /** Rejects only when the signal is aborted. A receiver of changes gets one notice at a time. */
  send(notices: readonly Notice[], signal: AbortSignal): Promise<Answer>;
}

/** What every kind of notifier needs. */
export interface NotifierDeps {
  readonly notifier: string;
  readonly post: Post;
  /** Milliseconds since the Unix epoch. */
  readonly now: () => number;
  /** Address of the agent for people; empty for none. */
  readonly externalUrl: string;
}

/** How sending ended, counted for each notice and address. `failed`: it is tried again. `dropped`: it is not. */
export const OUTCOMES = ['sent', 'failed', 'dropped'] as const;

/**
 * Posts, and reads the status; `isRefusal`: the statuses that mean that the content was not understood. Rejects only when the
 * signal is aborted.
 */
export async function postNotices(
  post: Post,
  url: string,
  request: Parameters<Post>[1],
  isRefusal: (status: number) => boolean,
): Promise<Answer> {
  try {
    const { status } = await post(url, request);
    if (status >= 200 && status < 300) return { kind: 'accepted' };
    const why = `status ${status}`;
    if (isRefusal(status)) return { kind: 'refused', why };
    return { kind: 'failed', why, isDown: status === 429 || status === 503 };
  } catch (error) {
    if (request.signal.aborted) throw error;
    const { code, name } = error as { readonly code?: unknown; readonly name?: string };
    // Never the message: it may hold the address, and that a secret.
    return { kind: 'failed', why: typeof code === 'string' ? code : (name ?? 'error'), isDown: true };
  }
}

/** With a span for every request, without the address: it may hold a secret. */
export function traced(receiver: Receiver, tracer: Tracer): Receiver {
  const { notifier, member } = receiver;
  return {
    ...receiver,
    send: (notices, signal) =>
      tracer.span(
        'notify',
        { notifier, member, alerts: notices.length },
        async span => {
          const answer = await receiver.send(notices, signal);
          span.set({ outcome: answer.kind });
          if (answer.kind !== 'accepted') span.fail(answer.kind);
          return answer;
        },
        'client',
      ),
  };
}
