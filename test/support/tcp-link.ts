import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** The network between one client and one server, which can fail. */
export interface TcpLink {
  readonly port: number;
  /** Destroys its connections, and refuses others. */
  cut(): void;
  /** Takes what is sent and passes nothing on; nobody is told. Connections are accepted. */
  hang(): void;
  /** Passes on what was held, and all that comes. */
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
      // A reset is passed on as one, so that a client learns of it at once.
      one.on('error', () => other.resetAndDestroy());
      one.on('end', () => other.end());
      // One that is paused would not notice.
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
