import type { IncomingMessage, ServerResponse } from 'node:http';
import { Router } from 'express';
import { whenOver } from '../answers.ts';
import type { Served } from '../served.ts';
import { onlyAllow, READ } from './methods.ts';

/** Open streams at a time. */
const MOST_STREAMS = 64;
/** Milliseconds between two looks at whether something has changed: no client hears of it more often. */
const LOOK_EVERY = 2000;
/** Milliseconds after which clients are told in any case: time alone makes data stale, and alerts fire between rounds. Proxies close what is silent. */
const QUIET = 15_000;
/** Milliseconds after which a client whose stream has ended shall come again. */
const RETRY = 3000;

interface Stream {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Since when something is not taken, of the monotonic clock. */
  unreadSince: number | undefined;
}

/** Streams that notify pages of changes. A page then fetches itself again. */
export type Streams = ReturnType<typeof createStreams>;

export interface StreamsDeps extends Pick<Served, 'watch' | 'clock'> {
  /** Milliseconds in which a client has to take what it is sent. */
  readonly takenWithin: number;
  readonly onCut: (request: IncomingMessage) => void;
}

export function createStreams({ watch, clock, takenWithin, onCut }: StreamsDeps) {
  const streams = new Set<Stream>();
  let isClosed = false;
  let ticking = new AbortController();

  function send(text: string): void {
    for (const { response } of streams) response.write(text);
  }

  function cutSlow(): void {
    const now = clock.monotonic();
    for (const stream of streams) {
      stream.unreadSince = stream.response.writableLength === 0 ? undefined : (stream.unreadSince ?? now);
      if (stream.unreadSince !== undefined && now - stream.unreadSince > takenWithin) {
        onCut(stream.request);
        stream.request.socket.destroy();
      }
    }
  }

  /** One for all streams, while there are any. */
  async function tick(signal: AbortSignal): Promise<void> {
    const hasChanged = watch();
    let saidAt = clock.monotonic();
    for (;;) {
      await clock.sleep(LOOK_EVERY, signal);
      cutSlow();
      if (!hasChanged() && clock.monotonic() - saidAt < QUIET) continue;
      saidAt = clock.monotonic();
      send(`event: changed\ndata: ${JSON.stringify({ at: new Date(clock.now()).toISOString() })}\n\n`);
    }
  }

  function start(): void {
    ticking = new AbortController();
    tick(ticking.signal).catch(() => undefined);
  }

  return {
    open(request: IncomingMessage, response: ServerResponse): void {
      if (isClosed || streams.size >= MOST_STREAMS) {
        response.writeHead(503, { 'Content-Type': 'text/plain; charset=utf-8', 'Retry-After': '10' });
        response.end(`there are ${MOST_STREAMS} open streams: no more are opened\n`);
        return;
      }
      response.writeHead(200, {
        'Content-Type': 'text/event-stream',
        'Cache-Control': 'no-store',
        // Nothing comes after it: the port closes as soon as it ends.
        Connection: 'close',
        // nginx would hold events back until it has some kilobytes of them.
        'X-Accel-Buffering': 'no',
      });
      if (request.method === 'HEAD') {
        response.end();
        return;
      }
      const stream = { request, response, unreadSince: undefined };
      streams.add(stream);
      if (streams.size === 1) start();
      whenOver(request, response, () => {
        streams.delete(stream);
        if (streams.size === 0) ticking.abort();
      });
      response.write(`retry: ${RETRY}\n\n`);
    },
    /** Ends all streams. Later ones are refused. */
    close(): void {
      isClosed = true;
      // Nothing may be written to what has ended.
      ticking.abort();
      for (const { response } of streams) response.end();
    },
  };
}

/** GET /api/v1/stream: server-sent events. */
export function streamRoutes({ open }: Streams): Router {
  return Router()
    .get('/api/v1/stream', (request, response) => open(request, response))
    .all('/api/v1/stream', onlyAllow(READ));
}
