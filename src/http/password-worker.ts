import { parentPort } from 'node:worker_threads';
import { compareSync } from 'bcryptjs';

/** A password to compare with a bcrypt hash, off the main thread: a comparison takes tens of milliseconds to seconds. */
export interface PasswordCheck {
  readonly password: string;
  readonly hash: string;
}

parentPort?.on('message', ({ password, hash }: PasswordCheck) => parentPort?.postMessage(compareSync(password, hash)));
