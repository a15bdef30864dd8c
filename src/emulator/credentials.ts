import { randomBytes, randomUUID } from 'node:crypto';

/** Account names that the account-management address takes, and what they need to be let in. */
interface AccountLogin {
  readonly username: string;
  readonly password: string;
}

/** The secrets of one account. Those of the data addresses change when they are reset. */
export interface Credentials {
  readonly accountId: string;
  /** For Basic authentication at the account-management address; resets leave it as it is. */
  readonly login: AccountLogin;
  readonly token: string;
  readonly readOnlyToken: string;
  readonly password: string;
  /** What receivers check signatures with. */
  readonly signingKeys: { readonly current: string; readonly next: string };
  /** What a request that bears this may do, at the data addresses or at that of account management; undefined: nothing. */
  rightOf(authorization: string | undefined, login: 'bearer' | 'account'): 'all' | 'read' | undefined;
  /** Resets of the token, and rotations of the signing keys. */
  readonly resets: number;
  readonly keyRotations: number;
  /** New tokens and password; the old ones are void at once. */
  reset(): void;
  /** The next signing key becomes the current one. */
  rotateKeys(): void;
}

const secret = () => randomBytes(18).toString('base64url');

export function createCredentials(username: string, token = secret(), readOnlyToken = secret()): Credentials {
  const login = { username, password: secret() };
  const basic = `Basic ${Buffer.from(`${login.username}:${login.password}`).toString('base64')}`;
  const tokens = { token, readOnlyToken, password: secret() };
  let signingKeys = { current: `sig_${secret()}`, next: `sig_${secret()}` };
  let [resets, keyRotations] = [0, 0];
  return {
    accountId: randomUUID(),
    login,
    get token() {
      return tokens.token;
    },
    get readOnlyToken() {
      return tokens.readOnlyToken;
    },
    get password() {
      return tokens.password;
    },
    get signingKeys() {
      return signingKeys;
    },
    rightOf(authorization, at) {
      if (at === 'account') return authorization === basic ? 'all' : undefined;
      if (authorization === `Bearer ${tokens.token}`) return 'all';
      return authorization === `Bearer ${tokens.readOnlyToken}` ? 'read' : undefined;
    },
    get resets() {
      return resets;
    },
    get keyRotations() {
      return keyRotations;
    },
    reset() {
      Object.assign(tokens, { token: secret(), readOnlyToken: secret(), password: secret() });
      resets++;
    },
    rotateKeys() {
      signingKeys = { current: signingKeys.next, next: `sig_${secret()}` };
      keyRotations++;
    },
  };
}
