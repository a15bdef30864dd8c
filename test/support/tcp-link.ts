import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A TCP proxy that simulates network failures between one client and one server. */
export interface TcpLink {
  readonly port: number;
  /** Destroys all connections and refuses new ones. */
  cut(): void;
  /** Accepts connections and data but forwards nothing. */
  hang(): void;
  /** Accepts connections again; forwards buffered and new data. */
  restore(): void;
  close(): Promise<void>;
}

export async function startTcpLink(target: { readonly host: string; readonly port: number }): Promise<TcpLink> {
  const pairs = new Set<readonly [Socket, Socket]>();
  let state: 'up' | 'cut' | 'hanging' = 'up';
  const server = createServer(near => {
    if (state === 'cut') return void near.resetAndDestroy();
    const far = connect(target);
    const pair = [near, far] as const;
    pairs.add(pair);
    for (const [one, other] of [pair, pair.toReversed() as [Socket, Socket]] as const) {
      one.setNoDelay(true);
      one.on('data', chunk => void (other.write(chunk) || one.pause()));
      other.on('drain', () => void (state !== 'hanging' && one.resume()));
      // Forward a reset as a reset, so that the client detects it immediately.
      one.on('error', () => other.resetAndDestroy());
      one.on('end', () => other.end());
      // A paused socket does not detect that the connection was closed.
      one.on('close', () => {
        pairs.delete(pair);
        other.destroy();
      });
    }
    if (state === 'hanging') for (const each of pair) each.pause();
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  function destroyAll(): void {
    for (const pair of pairs) for (const each of pair) each.resetAndDestroy();
  }
  return {
    port: (server.address() as AddressInfo).port,
    cut() {
      state = 'cut';
      destroyAll();
    },
    hang() {
      state = 'hanging';
      for (const pair of pairs) for (const each of pair) each.pause();
    },
    restore() {
      state = 'up';
      for (const pair of pairs) for (const each of pair) each.resume();
    },
    close() {
      destroyAll();
      return new Promise(resolve => server.close(() => resolve()));
    },
  };
}
