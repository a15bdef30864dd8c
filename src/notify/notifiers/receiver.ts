import { errorCode } from '../../kit/error-code.ts';
import { redacted } from '../../kit/redaction.ts';
import { retryAfterMs } from '../../kit/retry-after.ts';
import type { Secret } from '../../kit/secret.ts';
import type { Tracer } from '../../kit/tracer.ts';
import type { ReceiverClient } from '../../upstream/post.ts';
import type { Grouping, Labels, Notice } from '../notice.ts';

/** Sends a POST. Does not follow redirects. Rejects if no response arrives in time. */
export type Post = ReceiverClient['post'];

/** Result of a request. `answer`: status and reason of the response, or an error code; without secrets. */
export type SendResult = { readonly answer: string } & (
  | { readonly kind: 'ok' }
  /**
   * A retry may succeed, after at least `after` ms. `isDown`: other requests would also fail now. `isUnsent`: the receiver has
   * certainly not accepted it.
   */
  | { readonly kind: 'retry'; readonly isDown: boolean; readonly isUnsent: boolean; readonly after?: number }
  /** `isWhole`: the receiver would refuse any notification. Otherwise only the content was refused. */
  | { readonly kind: 'refused'; readonly isWhole: boolean }
);

/** A group's notification, without its alerts. */
export interface Group {
  readonly labels: Labels;
  /** Identity of the notification, the same for each attempt. */
  readonly key: string;
  /** Number of alerts of the group that are omitted because of the limits on one notification. */
  readonly left: number;
}

export interface Receiver {
  readonly notifier: string;
  /** Index of the address among the notifier's addresses. */
  readonly member: number;
  readonly grouping: Grouping;
  readonly maxAlerts: number;
  /** Whether unchanged firing alerts are sent again. */
  readonly repeats: boolean;
  /** Whether the receiver groups alerts itself. If so, a request may contain several groups, or only changed alerts. */
  readonly isMerging: boolean;
  selects(labels: Labels): boolean;
  /** Returns a hash of address and secret, which must be readable now. */
  identity(): Promise<string>;
  /** Sends notices. Rejects only if the signal is aborted. */
  send(notices: readonly Notice[], signal: AbortSignal, group?: Group): Promise<SendResult>;
}

export interface NotifierDeps extends Pick<Receiver, 'notifier' | 'selects'> {
  readonly post: Post;
  readonly now: () => number;
  readonly externalUrl: string;
}

/** Counted results of requests. `failed`: retried; `dropped`: alerts that ended unsent, and notices that were refused or too old. */
export const SEND_OUTCOMES = ['sent', 'failed', 'dropped'] as const;

export interface ResponseMeaning {
  isRefusal(status: number): boolean;
  /** Whether the body of a response with status 2xx reports an error. */
  readonly isError?: ((text: string) => boolean) | undefined;
  /** Values that never appear in the answer, in addition to the address. */
  readonly secrets?: readonly string[];
}

/** Errors of requests that did not reach the receiver. */
const UNREACHED: readonly string[] = ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH'];
/** Maximum length of a receiver's reason (characters). */
const MAX_SHOWN = 200;

/** Returns the reason in the body of a response: plain text, or the messages in JSON; empty for HTML and other JSON. */
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

/** Whether a refusal concerns this notification (its content, size or format) instead of the address or key. */
const isOfContent = (status: number, answer: string) =>
  [400, 413, 422].includes(status) && !/routing.key/i.test(answer);

/** Sends a request and interprets the response. Rejects only if the signal is aborted. */
export async function postNotices(
  { post, now }: Pick<NotifierDeps, 'post' | 'now'>,
  url: string,
  request: Parameters<Post>[1],
  { isRefusal, isError, secrets = [] }: ResponseMeaning,
): Promise<SendResult> {
  try {
    const { status, retryAfter, text } = await post(url, request);
    const isAccepted = status >= 200 && status < 300;
    const reason = redacted(reasonIn(text), [url, ...secrets], MAX_SHOWN);
    const answer = reason ? `status ${status}, ${reason}` : `status ${status}`;
    if (isAccepted) return isError?.(text) ? { kind: 'refused', answer, isWhole: false } : { kind: 'ok', answer };
    if (isRefusal(status)) return { kind: 'refused', answer, isWhole: !isOfContent(status, answer) };
    const isDown = status === 429 || status === 503;
    const after = isDown ? retryAfterMs(retryAfter, now()) : undefined;
    return { kind: 'retry', answer, isDown, isUnsent: isDown, ...(after === undefined ? {} : { after }) };
  } catch (error) {
    if (request.signal.aborted) throw error;
    const answer = errorCode(error);
    return { kind: 'retry', answer, isDown: true, isUnsent: UNREACHED.includes(answer) };
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
          if (result.kind !== 'ok') span.fail(result.kind);
          return result;
        },
        { signal },
      ),
  };
}

export interface Notification {
  readonly notices: readonly Notice[];
  readonly group: Group;
  readonly externalUrl: string;
  readonly notifier: string;
  readonly secret: Secret | undefined;
  /** Body of the format `template`. */
  readonly template: string;
}

export interface BodyFormat {
  /** Description in the reference of the configuration. */
  readonly about: string;
  readonly maxAlerts: number;
  /** Whether anyone with the URL may post there. */
  readonly hasSecretUrl?: true;
  /** Default of `url`; undefined if it is required. */
  readonly url?: string;
  /** Meaning of `secret` if the body must contain it; undefined if `secret` signs requests. */
  readonly key?: string;
  /** Whether each alert is a separate request, without groups and repetitions. */
  readonly isSingle?: true;
  bodyOf(notification: Notification): string;
  /** Whether the body of a response with status 2xx reports an error. */
  isError?(text: string): boolean;
}
