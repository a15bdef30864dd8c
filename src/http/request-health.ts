import { get as getPlain } from 'node:http';
import { get as getSecure } from 'node:https';

/** Timeout of a health request (ms). A busy machine may need seconds to respond. */
const WITHIN = 4000;

/** Resolves if a server responds with any status or TLS alert. Ignores the certificate, which rarely names the loopback address. */
export function requestHealth(url: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const get = url.startsWith('https:') ? getSecure : getPlain;
    const request = get(url, { agent: false, rejectUnauthorized: false, timeout: WITHIN }, response => {
      response.resume();
      resolve();
    });
    request.on('timeout', () => request.destroy(new Error(`no response within ${WITHIN / 1000} s`)));
    request.on('error', error => {
      // An alert number proves that the server has responded.
      if (/SSL alert number \d/.test(error.message)) resolve();
      else reject(new Error(`${url}: ${error.message}`, { cause: error }));
    });
  });
}
