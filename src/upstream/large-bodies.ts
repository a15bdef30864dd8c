/**
 * A process's turns at holding an answer of unusual size. Without them a few services that send as much as is read at most,
 * all at the same time, would take the memory of all accounts.
 */
export interface LargeBodies {
  turn(): Turn;
}

/** One answer's turn. */
interface Turn {
  /** Resolves when this answer may grow large, at once if it may already; rejects with the signal's reason when that is aborted first. */
  take(signal: AbortSignal): Promise<void>;
  /** Lets the next one, whether this one had its turn or not. */
  end(): void;
}

/** From so many bytes on an answer is large. Others never wait: a service that is slow within it holds up nobody. */
export const LARGE = 4 * 1024 * 1024;
const AT_A_TIME = 4;

export function createLargeBodies(): LargeBodies {
  const waiting: (() => void)[] = [];
  let free = AT_A_TIME;

  function leave(): void {
    const next = waiting.shift();
    if (next) next();
    else free += 1;
  }

  function enter(signal: AbortSignal): Promise<void> {
    if (free > 0) {
      free -= 1;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        waiting.splice(waiting.indexOf(start), 1);
        reject(signal.reason);
      };
      const start = () => {
        signal.removeEventListener('abort', onAbort);
        resolve();
      };
      if (signal.aborted) return reject(signal.reason);
      signal.addEventListener('abort', onAbort, { once: true });
      waiting.push(start);
    });
  }

  return {
    turn() {
      let isMine = false;
      return {
        async take(signal) {
          if (isMine) return;
          await enter(signal);
          isMine = true;
        },
        end() {
          if (isMine) leave();
          isMine = false;
        },
      };
    },
  };
}
