import type { Packet, Sender } from './sender.ts';

/** Packets that wait for their receiver, in memory, oldest first. */
export function createQueue({ mostBytes, dropped }: { mostBytes: number; dropped(items: number): void }) {
  const waiting: Packet[] = [];
  let bytes = 0;
  /** In flight, so it is not dropped for newer packets. */
  let underWay: Packet | undefined;

  function remove(packet: Packet): void {
    const index = waiting.indexOf(packet);
    if (index < 0) return;
    waiting.splice(index, 1);
    bytes -= packet.body.length;
  }

  return {
    get bytes(): number {
      return bytes;
    },
    /** Drops the oldest packets that exceed the limit, also a packet that alone exceeds it. */
    add(packet: Packet): void {
      waiting.push(packet);
      bytes += packet.body.length;
      while (bytes > mostBytes) {
        const oldest = waiting.find(each => each !== underWay);
        if (!oldest) return;
        remove(oldest);
        dropped(oldest.items);
      }
    },
    /** Sends until the queue is empty or the receiver refuses. Rejects only when the signal is aborted. */
    async drain(sender: Pick<Sender, 'isDue' | 'send'>, signal: AbortSignal): Promise<void> {
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
