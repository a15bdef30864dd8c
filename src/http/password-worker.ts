import { parentPort } from 'node:worker_threads';
import { compareSync } from 'bcryptjs';

/** A password and a bcrypt hash to compare outside the main thread, because a comparison may take seconds. */
export interface PasswordCheck {
  readonly password: string;
  readonly hash: string;
}

parentPort?.on('message', ({ password, hash }: PasswordCheck) => parentPort?.postMessage(compareSync(password, hash)));
