import { get as getPlain } from 'node:http';
import { get as getSecure } from 'node:https';

/** Timeout (ms), long enough for a busy machine. */
const WITHIN = 4000;

/**
 * Resolves if a server responds at this address, with any status or TLS alert. The certificate is not checked: the
 * request has no secret, and certificates rarely name the loopback address.
 */
export function requestHealth(url: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const get = url.startsWith('https:') ? getSecure : getPlain;
    const request = get(url, { agent: false, rejectUnauthorized: false, timeout: WITHIN }, response => {
      response.resume();
      resolve();
    });
    request.on('timeout', () => request.destroy(new Error(`no response within ${WITHIN / 1000} s`)));
    request.on('error', error => {
      // The message contains an alert number only if OpenSSL received the alert, so the server has responded.
      if (/SSL alert number \d/.test(error.message)) resolve();
      else reject(new Error(`${url}: ${error.message}`, { cause: error }));
    });
  });
}
