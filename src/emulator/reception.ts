import type { RequestListener } from 'node:http';
import type { EmulatedAccount } from './account.ts';

type Answering = Pick<EmulatedAccount, 'credentials'> & { readonly answer: RequestListener };

/** What the emulator knows of one account, which `/_emulator/…` without a number shows of the first. */
const INSIDE = /^\/_emulator\/accounts\/([^/?]+)(?=\/)/;

/**
 * Hands each request to the account that it is for, by the secret that it bears or by the number in its path. One that
 * bears no account's secret is the first account's: that counts it, spoils it and refuses it.
 */
export function answerFor(accounts: readonly [Answering, ...Answering[]]): RequestListener {
  return (request, response) => {
    const { url = '', headers } = request;
    const [prefix = '', number] = INSIDE.exec(url) ?? [];
    if (number === undefined) {
      const owner = accounts.find(
        ({ credentials }) =>
          credentials.rightOf(headers.authorization, 'bearer') ?? credentials.rightOf(headers.authorization, 'account'),
      );
      return (owner ?? accounts[0]).answer(request, response);
    }
    const inside = /^[1-9]\d*$/.test(number) ? accounts[Number(number) - 1] : undefined;
    if (inside) {
      request.url = `/_emulator${url.slice(prefix.length)}`;
      return inside.answer(request, response);
    }
    response.writeHead(404, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ error: `there is no account ${number}; there are 1 to ${accounts.length}` }));
  };
}
