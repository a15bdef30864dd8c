import { constants, openSync, write } from 'node:fs';
import { isatty } from 'node:tty';
import { systemClock } from '../kit/clock.ts';

/**
 * Maximum number of characters to buffer; 10,000 lines about new dead letters have 3,500,000. Further lines are dropped, so
 * that a stalled log reader does not stall the agent.
 */
const MAX_BUFFERED = 4_000_000;

/** Interval between attempts to write to a full pipe or terminal (ms). */
const RETRY_EVERY = 100;

const LINE_BREAK = 10;

/** Returns a file descriptor of standard error with which no write blocks: the process could not exit during a blocked write. */
function openStandardError(): number {
  // Node.js makes a pipe or socket non-blocking when `process.stderr` is first used, but a terminal blocking.
  if (!isatty(process.stderr.fd)) return process.stderr.fd;
  try {
    return openSync('/dev/stderr', constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  } catch {
    // Another user's terminal cannot be opened.
    return process.stderr.fd;
  }
}

/** Creates a non-blocking output for complete lines. Reports the number of dropped lines. An error drops only lines in flight. */
export function createLogOutput(dropped: (lines: number) => void = () => {}, fd: number = openStandardError()) {
  let waiting = '';
  let writing = Buffer.alloc(0);
  /** Whether the output ends with a part of a line. */
  let isCut = false;

  function drop(): void {
    // If the first byte is a line break, it only ends an earlier line.
    dropped(writing.subarray(1).filter(byte => byte === LINE_BREAK).length);
    writing = Buffer.alloc(0);
  }

  function next(): void {
    if (writing.length === 0) {
      if (waiting === '') return;
      // End a line that was cut, so that it spoils no other line.
      writing = Buffer.from(isCut ? `\n${waiting}` : waiting);
      waiting = '';
    }
    write(fd, writing, (error, written) => {
      if (error?.code === 'EAGAIN') return void systemClock.sleep(RETRY_EVERY).then(next);
      if (error) drop();
      else {
        isCut = writing[written - 1] !== LINE_BREAK;
        writing = writing.subarray(written);
      }
      next();
    });
  }

  return {
    write(line: string): void {
      if (waiting.length + writing.length + line.length > MAX_BUFFERED) dropped(1);
      else {
        const isIdle = waiting === '' && writing.length === 0;
        waiting += line;
        if (isIdle) next();
      }
    },
  };
}
