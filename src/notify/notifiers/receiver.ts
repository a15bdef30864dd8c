import { errorCode } from '../../kit/error-code.ts';
import { redacted } from '../../kit/redaction.ts';
import { retryAfterMs } from '../../kit/retry-after.ts';
import type { Tracer } from '../../kit/tracer.ts';
import type { Reply } from '../../upstream/post.ts';
import type { Group, Grouping } from '../group.ts';
import type { Notice } from '../notice.ts';

/** Sends a POST with JSON. Does not follow redirects. Rejects if no response arrives in time. */
export type Post = (
  url: string,
  request: { readonly headers: Readonly<Record<string, string>>; readonly body: string; readonly signal: AbortSignal },
) => Promise<Reply>;

export type SendResult =
  | { readonly kind: 'accepted' }
  /** The content was rejected, so a retry is useless. */
  | { readonly kind: 'refused'; readonly why: string }
  /** A retry may succeed, after at least `retryAfter` ms. `isDown`: other requests would also fail now. */
  | { readonly kind: 'failed'; readonly why: string; readonly isDown: boolean; readonly retryAfter?: number };

export interface Receiver {
  readonly notifier: string;
  /** Index of the address among the notifier's addresses. */
  readonly member: number;
  /** `state`: firing and recently resolved alerts, repeatedly. `changes`: each alert when it starts to fire or is resolved. */
  readonly wants: 'state' | 'changes';
  /** How changes are grouped; undefined if each is sent separately. */
  readonly grouping?: Grouping | undefined;
  /**
   * Sends notices. A receiver of changes gets one notice or the notices of one group. Rejects only if the signal is aborted.
   */
  send(notices: readonly Notice[], signal: AbortSignal, group?: Group): Promise<SendResult>;
}

export interface NotifierDeps {
  readonly notifier: string;
  readonly post: Post;
  readonly now: () => number;
  readonly externalUrl: string;
}

/** Counted results of sending. A `failed` notice is retried, a `dropped` one is not. */
export const SEND_OUTCOMES = ['sent', 'failed', 'dropped'] as const;

export interface ResponseMeaning {
  isRefusal(status: number): boolean;
  /** Returns the error in a response with status 2xx, from a fixed set of words; undefined if there is no such error. */
  readonly errorIn?: ((text: string) => string | undefined) | undefined;
  /** Values that never appear in the reason, in addition to the address. */
  readonly secrets?: readonly string[];
}

/** Maximum length of a receiver's reason (characters). */
const MAX_SHOWN = 200;

/** Returns the reason in the body of a rejection: plain text, or the messages in JSON; empty for HTML and other JSON. */
function reasonIn(latin1: string): string {
  const text = Buffer.from(latin1, 'latin1').toString().trim();
  if (!/^[[{]/.test(text)) return text.startsWith('<') ? '' : text;
  try {
    const { message, error, errors } = JSON.parse(text);
    const all = [message, error, errors].flat().map(each => each?.message ?? each);
    return all.filter(each => typeof each === 'string').join(': ');
  } catch {
    return '';
  }
}

/** Sends a request and interprets the response. Rejects only if the signal is aborted. */
export async function postNotices(
  { post, now }: Pick<NotifierDeps, 'post' | 'now'>,
  url: string,
  request: Parameters<Post>[1],
  { isRefusal, errorIn, secrets = [] }: ResponseMeaning,
): Promise<SendResult> {
  try {
    const { status, retryAfter, text } = await post(url, request);
    const isAccepted = status >= 200 && status < 300;
    const error = isAccepted ? errorIn?.(text) : redacted(reasonIn(text), [url, ...secrets], MAX_SHOWN);
    const why = error ? `status ${status}, ${error}` : `status ${status}`;
    if (isAccepted) return error ? { kind: 'refused', why } : { kind: 'accepted' };
    if (isRefusal(status)) return { kind: 'refused', why };
    const isDown = status === 429 || status === 503;
    const wait = isDown ? retryAfterMs(retryAfter, now()) : undefined;
    return { kind: 'failed', why, isDown, ...(wait === undefined ? {} : { retryAfter: wait }) };
  } catch (error) {
    if (request.signal.aborted) throw error;
    return { kind: 'failed', why: errorCode(error), isDown: true };
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
          const result = await receiver.send(notices, signal, group);
          span.set({ outcome: result.kind });
          if (result.kind !== 'accepted') span.fail(result.kind);
          return result;
        },
        'client',
      ),
  };
}
