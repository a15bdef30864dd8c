import { compareSync } from 'bcryptjs';

/** A password and a bcrypt hash to compare outside the main thread, because a comparison may take seconds. */
export interface PasswordCheck {
  readonly password: string;
  readonly hash: string;
}

export const checkPassword = ({ password, hash }: PasswordCheck): boolean => compareSync(password, hash);
