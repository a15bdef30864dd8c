import type { Packet, Sender } from './sender.ts';

/** Packets that wait for their receiver, in memory, oldest first. */
export interface Queue {
  /** Makes room by dropping the oldest. Of a packet that is larger than the whole queue nothing is kept. */
  add(packet: Packet): void;
  /** Sends until nothing waits, or the receiver does not take it. Rejects only when the signal is aborted. */
  drain(sender: Pick<Sender, 'isDue' | 'send'>, signal: AbortSignal): Promise<void>;
  readonly bytes: number;
}

export function createQueue({
  mostBytes,
  dropped,
}: {
  readonly mostBytes: number;
  dropped(items: number): void;
}): Queue {
  const waiting: Packet[] = [];
  let bytes = 0;
  /** It is on its way, and is not dropped to make room. */
  let underWay: Packet | undefined;

  function remove(packet: Packet): void {
    const index = waiting.indexOf(packet);
    if (index < 0) return;
    waiting.splice(index, 1);
    bytes -= packet.body.length;
  }

  return {
    get bytes() {
      return bytes;
    },
    add(packet) {
      waiting.push(packet);
      bytes += packet.body.length;
      while (bytes > mostBytes) {
        const oldest = waiting.find(each => each !== underWay);
        if (!oldest) return;
        remove(oldest);
        dropped(oldest.items);
      }
    },
    async drain(sender, signal) {
      while (!signal.aborted && sender.isDue()) {
        const packet = waiting[0];
        if (!packet) return;
        underWay = packet;
        try {
          if ((await sender.send(packet, signal)) !== 'failed') remove(packet);
        } finally {
          underWay = undefined;
        }
      }
    },
  };
}
