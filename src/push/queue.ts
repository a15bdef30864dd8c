import type { Packet, Sender } from './sender.ts';

/** Creates an in-memory queue of packets, oldest first. `dropped` is called for each dropped packet. */
export function createQueue({ maxBytes, dropped }: { maxBytes: number; dropped(items: number): void }) {
  const waiting: Packet[] = [];
  let bytes = 0;
  /** The packet being sent, which `add` never drops. */
  let inFlight: Packet | undefined;

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
    /**
     * Adds a packet, then drops the oldest packets until the queue is within its limit. Drops even a single packet that exceeds
     * the limit.
     */
    add(packet: Packet): void {
      waiting.push(packet);
      bytes += packet.body.length;
      while (bytes > maxBytes) {
        const oldest = waiting.find(each => each !== inFlight);
        if (!oldest) return;
        remove(oldest);
        dropped(oldest.items);
      }
    },
    /** Sends packets until the queue is empty or the sender must back off. Rejects only when the signal is aborted. */
    async drain(sender: Pick<Sender, 'isDue' | 'send'>, signal: AbortSignal): Promise<void> {
      while (!signal.aborted && sender.isDue()) {
        const packet = waiting[0];
        if (!packet) return;
        inFlight = packet;
        try {
          if ((await sender.send(packet, signal)) !== 'failed') remove(packet);
        } finally {
          inFlight = undefined;
        }
      }
    },
  };
}
