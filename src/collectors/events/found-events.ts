import type { KeptEvent } from './kept-event.ts';

/** Events of one range as they are found, each once: less than half of what a Map of their identities costs. */
export interface FoundEvents {
  readonly size: number;
  /** In the order in which they were found. */
  values(): readonly KeptEvent[];
  has(identity: bigint): boolean;
  /** Whether there was none of that identity. */
  add(event: KeptEvent): boolean;
}

const SMALLEST = 64;

const scratch = new BigInt64Array(1);
const halves = new Int32Array(scratch.buffer);

export function createFoundEvents(): FoundEvents {
  const events: KeptEvent[] = [];
  /** Of each slot two words of the identity, and the number of the event, from 1 on: 0 is a free slot. */
  let slots = new Int32Array(SMALLEST * 3);
  let mask = SMALLEST - 1;

  /** The slot that has the identity, or the free one where it belongs, as an index into `slots`. */
  function slotOf(low: number, high: number): number {
    for (let slot = low & mask; ; slot = (slot + 1) & mask) {
      const at = slot * 3;
      if (slots[at + 2] === 0 || (slots[at] === low && slots[at + 1] === high)) return at;
    }
  }

  function put(at: number, low: number, high: number, number: number): void {
    slots[at] = low;
    slots[at + 1] = high;
    slots[at + 2] = number;
  }

  function grow(): void {
    const before = slots;
    slots = new Int32Array(before.length * 2);
    mask = mask * 2 + 1;
    for (let at = 0; at < before.length; at += 3) {
      const [low, high, number] = [before[at] as number, before[at + 1] as number, before[at + 2] as number];
      if (number !== 0) put(slotOf(low, high), low, high, number);
    }
  }

  return {
    get size() {
      return events.length;
    },
    values: () => events,
    has(identity) {
      scratch[0] = identity;
      return slots[slotOf(halves[0] as number, halves[1] as number) + 2] !== 0;
    },
    add(event) {
      scratch[0] = event.identity;
      const low = halves[0] as number;
      const high = halves[1] as number;
      const at = slotOf(low, high);
      if (slots[at + 2] !== 0) return false;
      put(at, low, high, events.push(event));
      if (events.length * 2 > mask) grow();
      return true;
    },
  };
}
