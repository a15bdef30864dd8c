import { createTurns, type Turns } from '../kit/turns.ts';

/** Bounds how many large answers the process holds at a time: a few services that send as much as is read would take all memory. */
export interface LargeBodies {
  turn(): Turn;
  /** In which all of them are parsed: each by itself would hold the process up only shortly, and all together for long. */
  readonly parsing: Turns;
}

/** One answer's turn. */
interface Turn {
  /** Resolves when this answer may grow large, at once if it may already; rejects with the signal's reason when that is aborted first. */
  take(signal: AbortSignal): Promise<void>;
  /** Lets the next one, whether this one had its turn or not. */
  end(): void;
}

/** Size in bytes from which an answer is large. Smaller ones never wait: a service that is slow to send one holds up no other. */
export const LARGE = 4 * 1024 * 1024;
const AT_A_TIME = 4;

export function createLargeBodies(): LargeBodies {
  const waiting = new Set<() => void>();
  let free = AT_A_TIME;

  function leave(): void {
    const [next] = waiting;
    if (!next) free += 1;
    else {
      waiting.delete(next);
      next();
    }
  }

  async function enter(signal: AbortSignal): Promise<void> {
    if (free > 0) {
      free -= 1;
      return;
    }
    signal.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const onAbort = () => {
      waiting.delete(resolve);
      reject(signal.reason);
    };
    waiting.add(resolve);
    signal.addEventListener('abort', onAbort, { once: true });
    await promise.finally(() => signal.removeEventListener('abort', onAbort));
  }

  return {
    parsing: createTurns(),
    turn() {
      let isMine = false;
      let isOver = false;
      // One place for one answer, though its packed and its unpacked bytes may ask at the same time.
      let entering: Promise<void> | undefined;
      return {
        take(signal) {
          entering ??= enter(signal).then(() => {
            // What was read of it was not JSON, or all of it, while the rest of its packed bytes waited.
            if (isOver) leave();
            else isMine = true;
          });
          return entering;
        },
        end() {
          if (isMine) leave();
          [isMine, isOver] = [false, true];
        },
      };
    },
  };
}
