import { get as getPlain } from 'node:http';
import { get as getSecure } from 'node:https';

/** Milliseconds in which a process that is well answers, also on a busy machine. */
const WITHIN = 4000;

/**
 * Resolves when a server answers at this address; rejects when none does. Any answer is a sign of life: 401 to who has no
 * password, 421 to a Host that is not allowed, and in TLS an alert that asks for a client certificate. The certificate is not
 * checked: nothing is sent that could be a secret, and it seldom names the loopback address.
 */
export function askHealth(url: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const get = url.startsWith('https:') ? getSecure : getPlain;
    const request = get(url, { agent: false, rejectUnauthorized: false, timeout: WITHIN }, response => {
      response.resume();
      resolve();
    });
    request.on('timeout', () => request.destroy(new Error(`no answer within ${WITHIN / 1000} s`)));
    request.on('error', error => {
      // OpenSSL's words for what the other side says; its own objections have no number.
      if (/SSL alert number \d/.test(error.message)) resolve();
      else reject(new Error(`${url}: ${error.message}`, { cause: error }));
    });
  });
}
