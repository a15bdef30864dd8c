import { randomBytes, randomUUID } from 'node:crypto';

const secret = () => randomBytes(18).toString('base64url');

export class EmulatedCredentials {
  readonly accountId = randomUUID();
  /** Credentials for the account-management API. Token resets do not change them. */
  readonly login: { readonly username: string; readonly password: string };
  token: string;
  readOnlyToken: string;
  /** Password in the response to a reset. Differs from the password in `login`. */
  password = secret();
  resets = 0;
  keyRotations = 0;

  readonly #basic: string;

  constructor(username: string, token = secret(), readOnlyToken = secret()) {
    this.login = { username, password: secret() };
    this.#basic = `Basic ${Buffer.from(`${username}:${this.login.password}`).toString('base64')}`;
    this.token = token;
    this.readOnlyToken = readOnlyToken;
  }

  /** Returns the permissions that an Authorization header grants; undefined if it grants none. */
  rightOf(authorization: string | undefined, at: 'bearer' | 'account'): 'all' | 'read' | undefined {
    if (at === 'account') return authorization === this.#basic ? 'all' : undefined;
    if (authorization === `Bearer ${this.token}`) return 'all';
    return authorization === `Bearer ${this.readOnlyToken}` ? 'read' : undefined;
  }

  /** Replaces tokens and password. The old tokens become invalid immediately. */
  reset(): void {
    Object.assign(this, { token: secret(), readOnlyToken: secret(), password: secret() });
    this.resets++;
  }

  rotateKeys() {
    this.keyRotations++;
    return { current: `sig_${secret()}`, next: `sig_${secret()}` };
  }
}
