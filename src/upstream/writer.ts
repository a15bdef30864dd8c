import type { Dispatcher } from 'undici';
import { withDeadline } from '../kit/clock.ts';
import type { CancelResponse } from '../model/journal.ts';
import type { Budget } from './budget.ts';
import { isSaneId } from './call.ts';
import { askedWait, type Outcome, reasonOfStatus, UpstreamError } from './errors.ts';
import { type Observing, observeRequest } from './observed.ts';
import { type Addresses, toUpstreamError } from './send.ts';
import type { TokenSource } from './token.ts';

/** The second face of the service, beside reading: it cancels a failure callback, and can nothing else. */
export interface Writer {
  /**
   * Sends one DELETE for the failure callback of this dead letter, or none: never a second one, and never elsewhere.
   * `not_sent` is certain; whatever is not certain is `unknown`. Does not throw for anything that the service, the
   * network or the signal does. `signal`: ends the wait for the budget and a connection; later, the wait for the answer.
   * `stop`: asked at the moment when the request is about to be written; a word ends it there.
   */
  cancel(id: string, signal: AbortSignal, stop: () => string | undefined): Promise<CancelResponse>;
}

export interface WriterDeps extends Observing {
  readonly addresses: Pick<Addresses, 'regional'>;
  readonly token: TokenSource;
  readonly budget: Budget;
  readonly dispatcher: Dispatcher;
  /** Milliseconds for the whole request, connecting included. */
  readonly timeout: number;
}

const TEMPLATE = '/v2/workflows/dlq/callback/{dlqId}';
const REQUEST = { endpoint: 'cancel', method: 'DELETE', template: TEMPLATE } as const;
const WHAT = `${REQUEST.method} ${TEMPLATE}`;
/** Bytes of an answer's body that are taken from the wire, so that its connection can be used again. Nothing is made of them. */
const LARGEST_BODY = 64 * 1024;

type Head = Parameters<NonNullable<Dispatcher.DispatchHandler['onResponseStart']>>[2];

interface Exchange {
  /** A byte of the request may have left. */
  readonly isSent: boolean;
  /** As far as it came. */
  readonly answer: { readonly status: number; readonly headers: Head } | undefined;
  /** Why the answer is not whole; undefined when it is. */
  readonly error: unknown;
  /** Why it was not to be sent after all. */
  readonly stopped: string | undefined;
}

/**
 * Uses a dispatch handler, because undici reports there when a request is about to be written: an earlier failure was
 * certainly not sent. Undici repeats requests that a connection returned (HTTP/2 refused stream, GOAWAY); that is stopped at
 * the same place.
 */
function exchange(
  dispatcher: Dispatcher,
  { origin, pathname: path }: URL,
  headers: Readonly<Record<string, string>>,
  signal: AbortSignal,
  onBytes: (bytes: number) => void,
  stop: () => string | undefined,
): Promise<Exchange> {
  return new Promise(resolve => {
    let running: Dispatcher.DispatchController | undefined;
    let answer: Exchange['answer'];
    let size = 0;
    let hasEnded = false;
    let stopped: string | undefined;
    const end = (error?: unknown) => {
      hasEnded = true;
      signal.removeEventListener('abort', onAbort);
      resolve({ isSent: running !== undefined, answer, error, stopped });
    };
    const onAbort = () => {
      end(signal.reason);
      running?.abort(signal.reason);
    };
    if (signal.aborted) return onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    dispatcher.dispatch(
      { origin, path, method: REQUEST.method, headers, idempotent: false },
      {
        onRequestStart(controller) {
          if (hasEnded || running) {
            controller.abort(new UpstreamError('network', `${WHAT}: not sent twice`));
            return;
          }
          stopped = stop();
          if (stopped === undefined) running = controller;
          else {
            end();
            controller.abort(new UpstreamError('network', `${WHAT}: stopped`));
          }
        },
        onResponseStart(_controller, status, received) {
          // What comes below 200 announces an answer, and is none.
          if (status >= 200) answer = { status, headers: received };
        },
        onResponseData(controller, chunk) {
          size += chunk.length;
          onBytes(chunk.length);
          if (size <= LARGEST_BODY) return;
          // Its status is known, and nothing reads the rest.
          end();
          controller.abort(new UpstreamError('invalid_response', `${WHAT}: answer above ${LARGEST_BODY} bytes`));
        },
        onResponseEnd: () => end(),
        onResponseError: (_controller, error) => end(error),
      },
    );
  });
}

const ACCEPTED: readonly number[] = [200, 202, 204, 302];

/** What an answer means, wherever its Location points. */
function meaningOf(status: number, retryAfter: number | undefined): CancelResponse {
  if (ACCEPTED.includes(status)) return { kind: 'accepted', status };
  if (status === 400) return { kind: 'refused', status };
  if (status === 404) return { kind: 'missing', status };
  if (status === 429) return { kind: 'limited', status, retryAfter };
  // 408 may come from a proxy.
  return { kind: status > 400 && status < 500 && status !== 408 ? 'denied' : 'unknown', status };
}

const notSent = (why: string): CancelResponse => ({ kind: 'not_sent', why });

export function createWriter(deps: WriterDeps): Writer {
  const { addresses, token, budget, dispatcher, timeout, meter, clock, tracer } = deps;
  const base = addresses.regional.replace(/\/+$/, '');

  async function send(
    id: string,
    bearer: string,
    signal: AbortSignal,
    stop: () => string | undefined,
  ): Promise<[CancelResponse, Outcome | undefined]> {
    const url = new URL(base + TEMPLATE.replace('{dlqId}', encodeURIComponent(id)));
    const headers = { accept: 'application/json', authorization: `Bearer ${bearer}`, ...tracer.headers() };
    const { isSent, answer, error, stopped } = await withDeadline(timeout, signal, deadline =>
      exchange(dispatcher, url, headers, deadline, bytes => meter.bytes.inc({ endpoint: 'cancel' }, bytes), stop),
    );
    if (stopped !== undefined) return [notSent(stopped), undefined];
    const wait = answer && askedWait(answer.status, answer.headers, clock.now());
    if (wait !== undefined) budget.pause(wait);
    if (!isSent && signal.aborted) return [notSent('stopped while connecting'), undefined];
    if (error !== undefined) {
      const { reason, message } = toUpstreamError(error, WHAT);
      if (!isSent) return [notSent(message), reason];
      return [{ kind: 'unknown', status: answer?.status }, signal.aborted ? 'timeout' : reason];
    }
    if (!answer) return [{ kind: 'unknown', status: undefined }, 'invalid_response'];
    const meaning = meaningOf(answer.status, wait);
    const failure = reasonOfStatus(answer.status);
    return [meaning, meaning.kind === 'accepted' ? 'ok' : (failure ?? 'invalid_response')];
  }

  const observed = (id: string, bearer: string, signal: AbortSignal, stop: () => string | undefined) =>
    observeRequest(deps, { ...REQUEST, base }, async (ended, span) => {
      const [meaning, outcome] = await send(id, bearer, signal, stop);
      if (outcome !== undefined) ended(outcome, 'status' in meaning ? meaning.status : undefined);
      if (outcome !== undefined && outcome !== 'ok') span.fail(outcome);
      return meaning;
    });

  return {
    async cancel(id, signal, stop) {
      if (!isSaneId(id)) return notSent('the id must be 1 to 200 of A-Z a-z 0-9 _ -');
      let hasTurn = false;
      try {
        const bearer = (await token()).reveal();
        return await budget.run('action', signal, () => {
          hasTurn = true;
          return observed(id, bearer, signal, stop);
        });
      } catch (error) {
        if (hasTurn) throw error;
        if (signal.aborted) return notSent('stopped before its turn');
        if (error instanceof UpstreamError) return notSent(error.message);
        throw error;
      }
    },
  };
}
