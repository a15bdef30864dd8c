import type { Dispatcher } from 'undici';
import { withDeadline } from '../kit/clock.ts';
import type { CancelResponse } from '../model/journal.ts';
import type { Budget } from './budget.ts';
import { type RequestOutcome, reasonOfStatus, requestedWait, UpstreamError } from './errors.ts';
import { type Observing, observeRequest } from './observed.ts';
import { type Addresses, isSaneId, type SendDeps, toUpstreamError } from './send.ts';
import type { TokenSource } from './token.ts';

/** Write access to the service: cancels failure callbacks, and offers no other operation. */
export interface Writer {
  /**
   * Sends at most one DELETE for the failure callback of this dead letter. `not_sent` is certain; every uncertain result is
   * `unknown`. Does not throw for failures of the service or the network, or if aborted. Aborting `signal` ends the wait for
   * the budget, a connection or the response. `stop` is called right before the request is written; if it returns a reason,
   * the request is not sent.
   */
  cancel(id: string, signal: AbortSignal, stop: () => string | undefined): Promise<CancelResponse>;
}

export interface WriterDeps extends Observing, Pick<SendDeps, 'dispatcher' | 'timeout'> {
  readonly addresses: Pick<Addresses, 'regional'>;
  readonly token: TokenSource;
  readonly budget: Budget;
}

const TEMPLATE = '/v2/workflows/dlq/callback/{dlqId}';
const REQUEST = { endpoint: 'cancel', method: 'DELETE', template: TEMPLATE } as const;
const WHAT = `${REQUEST.method} ${TEMPLATE}`;
/** Maximum number of bytes to drain from a response body so that its connection can be reused. */
const MAX_BODY_BYTES = 64 * 1024;

type Head = Parameters<NonNullable<Dispatcher.DispatchHandler['onResponseStart']>>[2];

interface Exchange {
  /** Whether a byte of the request may have been sent. */
  readonly isSent: boolean;
  /** The response, possibly incomplete. */
  readonly response: { readonly status: number; readonly headers: Head } | undefined;
  /** Why the response is incomplete; undefined if it is complete. */
  readonly error: unknown;
  readonly stopped: string | undefined;
}

/**
 * Sends the request with a dispatch handler, because undici calls it right before a request is written: if anything fails
 * before that, the request was certainly not sent. Undici also resends requests that the server did not process (HTTP/2 refused
 * stream, GOAWAY); the handler prevents that.
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
    let response: Exchange['response'];
    let size = 0;
    let hasEnded = false;
    let stopped: string | undefined;
    const end = (error?: unknown) => {
      hasEnded = true;
      signal.removeEventListener('abort', onAbort);
      resolve({ isSent: running !== undefined, response, error, stopped });
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
          // A status below 200 is informational, not a response.
          if (status >= 200) response = { status, headers: received };
        },
        onResponseData(controller, chunk) {
          size += chunk.length;
          onBytes(chunk.length);
          if (size <= MAX_BODY_BYTES) return;
          // The status has arrived, and the rest of the body is not needed.
          end();
          controller.abort(new UpstreamError('invalid_response', `${WHAT}: response above ${MAX_BODY_BYTES} bytes`));
        },
        onResponseEnd: () => end(),
        onResponseError: (_controller, error) => end(error),
      },
    );
  });
}

const ACCEPTED: readonly number[] = [200, 202, 204, 302];

/** Returns the meaning of a status. The Location of a redirect is ignored. */
function meaningOf(status: number, retryAfter: number | undefined): CancelResponse {
  if (ACCEPTED.includes(status)) return { kind: 'accepted', status };
  if (status === 400) return { kind: 'refused', status };
  if (status === 404) return { kind: 'missing', status };
  if (status === 429) return { kind: 'limited', status, retryAfter };
  // 408 may come from a proxy that has already forwarded the request.
  return { kind: status > 400 && status < 500 && status !== 408 ? 'denied' : 'unknown', status };
}

const notSent = (why: string): CancelResponse => ({ kind: 'not_sent', why });

export function createWriter(deps: WriterDeps): Writer {
  const { addresses, token, budget, dispatcher, timeout, meter, clock } = deps;
  const base = addresses.regional.replace(/\/+$/, '');

  async function send(
    id: string,
    bearer: string,
    signal: AbortSignal,
    stop: () => string | undefined,
  ): Promise<[CancelResponse, RequestOutcome | undefined]> {
    const url = new URL(base + TEMPLATE.replace('{dlqId}', encodeURIComponent(id)));
    const headers = { accept: 'application/json', authorization: `Bearer ${bearer}` };
    const { isSent, response, error, stopped } = await withDeadline(timeout, signal, deadline =>
      exchange(dispatcher, url, headers, deadline, bytes => meter.bytes.inc({ endpoint: 'cancel' }, bytes), stop),
    );
    if (stopped !== undefined) return [notSent(stopped), undefined];
    const wait = response && requestedWait(response.status, response.headers, clock.now());
    if (wait !== undefined) budget.pause(wait);
    if (!isSent && signal.aborted) return [notSent('stopped while connecting'), undefined];
    if (error !== undefined) {
      const { reason, message } = toUpstreamError(error, WHAT);
      if (!isSent) return [notSent(message), reason];
      return [{ kind: 'unknown', status: response?.status }, signal.aborted ? 'timeout' : reason];
    }
    if (!response) return [{ kind: 'unknown', status: undefined }, 'invalid_response'];
    const meaning = meaningOf(response.status, wait);
    const failure = reasonOfStatus(response.status);
    return [meaning, meaning.kind === 'accepted' ? 'ok' : (failure ?? 'invalid_response')];
  }

  const observed = (id: string, bearer: string, signal: AbortSignal, stop: () => string | undefined) =>
    observeRequest(deps, { ...REQUEST, base, signal }, async (ended, span) => {
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
        if (signal.aborted) return notSent('stopped before the request budget allowed it');
        if (error instanceof UpstreamError) return notSent(error.message);
        throw error;
      }
    },
  };
}
