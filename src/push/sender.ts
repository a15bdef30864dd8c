import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { BinaryReader } from '@bufbuild/protobuf/wire';
import { createRetry } from '../kit/backoff.ts';
import type { Clock } from '../kit/clock.ts';
import type { Counter } from '../kit/counter.ts';
import { errorCode } from '../kit/error-code.ts';
import type { Log } from '../kit/log.ts';
import { retryAfterMs } from '../kit/retry-after.ts';
import type { Reply } from '../upstream/post.ts';
import type { Target } from './target.ts';

/** Sends a POST request without following redirects. Rejects if no response arrives in time. */
export type PostBytes = (
  url: string,
  request: {
    readonly headers: Readonly<Record<string, string>>;
    readonly body: Uint8Array;
    readonly signal: AbortSignal;
  },
) => Promise<Reply>;

/** A protobuf body: `Export…ServiceRequest`. */
export interface Packet {
  readonly body: Uint8Array;
  readonly items: number;
  readonly isCompressed?: boolean;
}

/** `refused`: a retry would fail, too. `failed`: retry when `isDue` returns true. */
export type PushOutcome = 'accepted' | 'refused' | 'failed';

export type Sender = ReturnType<typeof createSender>;

export interface SenderDeps {
  readonly target: Target;
  readonly post: PostBytes;
  readonly counters: Readonly<Record<'requests' | 'items', Counter<'outcome'>>>;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly random: () => number;
  readonly log: Log;
}

/** Statuses that OTLP declares retryable. */
const RETRYABLE: ReadonlySet<number> = new Set([429, 502, 503, 504]);
const BACKOFF = { first: 1000, longest: 60_000 };

const gzipped = promisify(gzip);

/** Returns the number of rejected items in the `partial_success` of an OTLP response; 0 for any other body. */
export function rejectedItems(response: Uint8Array): number {
  try {
    const reader = new BinaryReader(response);
    while (reader.pos < reader.len) {
      const [field, wireType] = reader.tag();
      if (field !== 1) {
        reader.skip(wireType);
        continue;
      }
      const end = reader.uint32() + reader.pos;
      while (reader.pos < Math.min(end, reader.len)) {
        const [inner, innerType] = reader.tag();
        if (inner === 1) return Math.max(0, Number(reader.int64()));
        reader.skip(innerType);
      }
    }
  } catch {
    // Not an OTLP response: only the status counts.
  }
  return 0;
}

export function createSender(deps: SenderDeps) {
  const { target, post, counters, clock, random, log } = deps;
  const retry = createRetry(BACKOFF, clock, random);
  let trouble: { readonly since: number; readonly reason: string } | undefined;

  function troubled(reason: string): void {
    if (!trouble) log.warn({ reason }, 'the OTLP receiver does not accept metrics');
    trouble = { since: trouble?.since ?? clock.now(), reason };
  }

  function accepted({ items }: Packet, text: string): void {
    const rejected = Math.min(items, text === '' ? 0 : rejectedItems(Buffer.from(text, 'latin1')));
    counters.items.inc({ outcome: 'exported' }, items - rejected);
    if (rejected > 0) counters.items.inc({ outcome: 'rejected' }, rejected);
    retry.succeeded();
    if (rejected > 0) troubled('partial success');
    else if (trouble) {
      log.info({}, 'the OTLP receiver accepts metrics again');
      trouble = undefined;
    }
  }

  function outcomeOf({ status, retryAfter, text }: Reply, packet: Packet): PushOutcome {
    if (status >= 200 && status < 300) {
      accepted(packet, text);
      return 'accepted';
    }
    troubled(`status ${status}`);
    if (RETRYABLE.has(status)) {
      retry.failed(retryAfterMs(retryAfter, clock.now()));
      return 'failed';
    }
    counters.items.inc({ outcome: 'rejected' }, packet.items);
    // Back off, because a wrong address or key affects all requests.
    retry.failed();
    return 'refused';
  }

  return {
    isDue: retry.isDue,
    /** Compresses a packet, unless the target disables compression. */
    async compress(packet: Packet): Promise<Packet> {
      return target.isGzipped ? { ...packet, body: await gzipped(packet.body), isCompressed: true } : packet;
    },
    /** Returns the start (ms since the Unix epoch) and the reason of the current failure; undefined if there is none. */
    trouble: () => trouble,
    /** Sends and counts a request. Rejects only when the signal is aborted. */
    async send(packet: Packet, signal: AbortSignal): Promise<PushOutcome> {
      const { body, isCompressed } = packet;
      const headers = {
        ...target.headers,
        'content-type': 'application/x-protobuf',
        ...(isCompressed ? { 'content-encoding': 'gzip' } : {}),
      };
      try {
        const response = await post(target.url, { headers, body, signal });
        const outcome = outcomeOf(response, packet);
        counters.requests.inc({ outcome });
        return outcome;
      } catch (error) {
        if (signal.aborted) throw error;
        troubled(errorCode(error));
        retry.failed();
        counters.requests.inc({ outcome: 'failed' });
        return 'failed';
      }
    },
  };
}
