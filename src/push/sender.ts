import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { BinaryReader } from '@bufbuild/protobuf/wire';
import { createRetry } from '../kit/backoff.ts';
import type { Clock } from '../kit/clock.ts';
import type { Counter } from '../kit/counter.ts';
import type { Log } from '../kit/log.ts';
import { retryAfterMs } from '../kit/retry-after.ts';
import type { Target } from './target.ts';

/** Sends one POST. No redirect is followed. Rejects where there is no answer in time. */
export type PostBytes = (
  url: string,
  request: {
    readonly headers: Readonly<Record<string, string>>;
    readonly body: Uint8Array;
    readonly signal: AbortSignal;
  },
) => Promise<{
  readonly status: number;
  readonly retryAfter?: string | undefined;
  readonly text: string;
}>;

export interface PushCounters {
  /** `accepted`; `refused`: not to be sent again; `failed`: it is sent again. */
  readonly requests: Counter<'outcome'>;
  /** `exported`; `rejected`: by the receiver; `dropped`: there was no room to wait. */
  readonly items: Counter<'outcome'>;
}

/** A protobuf body: `Export…ServiceRequest`. */
export interface Packet {
  readonly body: Uint8Array;
  readonly items: number;
  /** What `packed` made of it. */
  readonly isPacked?: boolean;
}

/** `refused`: the receiver will not accept the request later, either. `failed`: it may be sent again when it is due. */
export type Outcome = 'accepted' | 'refused' | 'failed';

export type Sender = ReturnType<typeof createSender>;

export interface SenderDeps {
  readonly target: Target;
  readonly post: PostBytes;
  readonly counters: PushCounters;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly random: () => number;
  readonly log: Log;
}

/** The statuses that OTLP lets a client try again. */
const RETRYABLE: ReadonlySet<number> = new Set([429, 502, 503, 504]);
const BACKOFF = { first: 1000, longest: 60_000 };

const pack = promisify(gzip);

/** Items that a receiver says it did not take of a request that it accepted: `partial_success` of OTLP's answers. */
export function rejectedItems(answer: Uint8Array): number {
  try {
    const reader = new BinaryReader(answer);
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
    // Something else than OTLP's answer: the status alone counts.
  }
  return 0;
}

/** Why there was no answer: never the message, which may hold the address, and that a secret. */
function reasonOf(error: unknown): string {
  const { code, name } = error as { readonly code?: unknown; readonly name?: string };
  return typeof code === 'string' ? code : (name ?? 'error');
}

export function createSender(deps: SenderDeps) {
  const { target, post, counters, clock, random, log } = deps;
  const retry = createRetry(BACKOFF, clock, random);
  let trouble: { readonly since: number; readonly reason: string } | undefined;

  function troubled(reason: string): void {
    if (!trouble) log.warn({ reason }, 'the OTLP receiver does not accept what is pushed');
    trouble = { since: trouble?.since ?? clock.now(), reason };
  }

  function healthy(): void {
    if (trouble) log.info({}, 'the OTLP receiver accepts what is pushed again');
    trouble = undefined;
  }

  function accepted({ items }: Packet, text: string): void {
    const rejected = Math.min(items, text === '' ? 0 : rejectedItems(Buffer.from(text, 'latin1')));
    counters.items.inc({ outcome: 'exported' }, items - rejected);
    if (rejected > 0) counters.items.inc({ outcome: 'rejected' }, rejected);
    retry.succeeded();
    if (rejected > 0) troubled('partial success');
    else healthy();
  }

  function answered({ status, retryAfter, text }: Awaited<ReturnType<PostBytes>>, packet: Packet): Outcome {
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
    // Another may be taken, but not at once: an address or a key is wrong for all of them.
    retry.failed();
    return 'refused';
  }

  async function packed(packet: Packet): Promise<Packet> {
    if (packet.isPacked || !target.isGzipped) return packet;
    return { ...packet, body: await pack(packet.body), isPacked: true };
  }

  return {
    isDue: retry.isDue,
    /** Returns the packet, compressed if the target requires that. */
    packed,
    /** Why the receiver does not accept requests, and since when (ms since the Unix epoch); undefined if it accepts them. */
    trouble: () => trouble,
    /** Sends, counts, and logs when the receiver stops and starts to accept. Rejects only when the signal is aborted. */
    async send(packet: Packet, signal: AbortSignal): Promise<Outcome> {
      const { body, isPacked } = await packed(packet);
      const headers = {
        ...target.headers,
        'content-type': 'application/x-protobuf',
        ...(isPacked ? { 'content-encoding': 'gzip' } : {}),
      };
      try {
        const reply = await post(target.url, { headers, body, signal });
        const outcome = answered(reply, packet);
        counters.requests.inc({ outcome });
        return outcome;
      } catch (error) {
        if (signal.aborted) throw error;
        troubled(reasonOf(error));
        retry.failed();
        counters.requests.inc({ outcome: 'failed' });
        return 'failed';
      }
    },
  };
}
