import { randomBytes, randomUUID } from 'node:crypto';

const secret = () => randomBytes(18).toString('base64url');

export class Credentials {
  readonly accountId = randomUUID();
  /** For Basic authentication at the account-management address; resets leave it as it is. */
  readonly login: { readonly username: string; readonly password: string };
  token: string;
  readOnlyToken: string;
  /** As the reset's answer shows it; not that of `login`. */
  password = secret();
  signingKeys = { current: `sig_${secret()}`, next: `sig_${secret()}` };
  resets = 0;
  keyRotations = 0;

  readonly #basic: string;

  constructor(username: string, token = secret(), readOnlyToken = secret()) {
    this.login = { username, password: secret() };
    this.#basic = `Basic ${Buffer.from(`${username}:${this.login.password}`).toString('base64')}`;
    this.token = token;
    this.readOnlyToken = readOnlyToken;
  }

  /** What a request that bears this may do, at the data addresses or at that of account management; undefined: nothing. */
  rightOf(authorization: string | undefined, at: 'bearer' | 'account'): 'all' | 'read' | undefined {
    if (at === 'account') return authorization === this.#basic ? 'all' : undefined;
    if (authorization === `Bearer ${this.token}`) return 'all';
    return authorization === `Bearer ${this.readOnlyToken}` ? 'read' : undefined;
  }

  /** New tokens and password; the old ones are void at once. */
  reset(): void {
    Object.assign(this, { token: secret(), readOnlyToken: secret(), password: secret() });
    this.resets++;
  }

  rotateKeys(): void {
    this.signingKeys = { current: this.signingKeys.next, next: `sig_${secret()}` };
    this.keyRotations++;
  }
}
