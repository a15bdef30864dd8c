import { parentPort } from 'node:worker_threads';
import { compareSync } from 'bcryptjs';

/** Compares passwords with bcrypt hashes, off the main thread: each takes from tens of milliseconds to seconds. */
export interface Question {
  readonly password: string;
  readonly hash: string;
}

parentPort?.on('message', ({ password, hash }: Question) => parentPort?.postMessage(compareSync(password, hash)));
