import type { Notice } from '../notice.ts';

/** Sends one POST of JSON and gives its status. No redirect is followed. Rejects where there is no answer in time. */
export type Post = (
  url: string,
  request: { readonly headers: Readonly<Record<string, string>>; readonly body: string; readonly signal: AbortSignal },
) => Promise<{ readonly status: number }>;

/** What came of telling. */
export type Told =
  | { readonly kind: 'accepted' }
  /** What was said was not understood, and would not be the next time. */
  | { readonly kind: 'refused'; readonly why: string }
  /** Later perhaps. `isDown`: whatever else one would say would fare no better now. */
  | { readonly kind: 'failed'; readonly why: string; readonly isDown: boolean };

/** One address that is told of alerts. */
export interface Receiver {
  /** Name of the notifier that it belongs to. */
  readonly notifier: string;
  /** Which of the notifier's addresses it is: the first is 0. */
  readonly member: number;
  /** `state`: what fires, again and again. `changes`: when an alert begins to fire, and when it is resolved. */
  readonly wants: 'state' | 'changes';
  /** Throws only when the signal is aborted. Who wants changes gets one at a time. */
  tell(notices: readonly Notice[], signal: AbortSignal): Promise<Told>;
}

/** How notices came off, told of each notice and address. `failed`: it is tried again. `dropped`: it is not. */
export const OUTCOMES = ['sent', 'failed', 'dropped'] as const;

/** Posts, and gives the status, or why there is none as one word. */
export async function statusOf(
  post: Post,
  url: string,
  request: Parameters<Post>[1],
): Promise<{ readonly status: number } | { readonly status: undefined; readonly why: string }> {
  try {
    return await post(url, request);
  } catch (error) {
    if (request.signal.aborted) throw error;
    const { code, name } = error as { readonly code?: unknown; readonly name?: string };
    // Never the message: it may hold the address, and that a secret.
    return { status: undefined, why: typeof code === 'string' ? code : (name ?? 'error') };
  }
}

/** What every receiver makes of an answer; `isRefusal`: the statuses by which it says that it did not understand. */
export function toldBy(answer: Awaited<ReturnType<typeof statusOf>>, isRefusal: (status: number) => boolean): Told {
  if (answer.status === undefined) return { kind: 'failed', why: answer.why, isDown: true };
  const { status } = answer;
  if (status >= 200 && status < 300) return { kind: 'accepted' };
  const why = `status ${status}`;
  if (isRefusal(status)) return { kind: 'refused', why };
  return { kind: 'failed', why, isDown: status === 429 || status === 503 };
}
