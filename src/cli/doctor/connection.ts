import { lookup } from 'node:dns/promises';
import type { Dispatcher } from 'undici';
import { MAX_CLOCK_SKEW } from '../../kit/clock.ts';
import { openConnection, toConnectionError } from '../../upstream/connection.ts';
import { smallestDifference } from '../../upstream/service-clock.ts';
import { type Diagnosis, fail, ok, warn } from './probe.ts';

const DAY = 86_400_000;
/** Number of days before its expiry from which a certificate should be renewed. */
const RENEW_DAYS = 14;
/** Clock skew (ms) above which TLS may fail. */
const CLOCK_FAILS = 60_000;

export async function checkDns(host: string): Promise<Diagnosis> {
  // Remove the brackets of an IPv6 address.
  const found = await lookup(host.replace(/^\[|\]$/g, ''), { all: true }).catch(error => {
    throw toConnectionError(error, host);
  });
  return ok(`${host} is ${found.map(({ address }) => address).join(', ')}`);
}

/** Opens a TCP or TLS connection without sending a request. `via`: text that names the proxy in the result. */
export async function checkConnection(dispatcher: Dispatcher, url: URL, now: number, via = ''): Promise<Diagnosis> {
  const where = `${url.protocol}//${url.host}${via}`;
  const tls = await openConnection(dispatcher, url, where);
  if (!tls) return ok(where);
  const until = new Date(tls.certificateUntil).toISOString().slice(0, 10);
  const detail = `${where}, ${tls.protocol}, certificate until ${until}`;
  const days = Math.floor((tls.certificateUntil - now) / DAY);
  return days < RENEW_DAYS ? warn(`${detail}: ${days} days`, 'renew the certificate') : ok(detail);
}

/** Converts the service's clock minus this machine's to a finding. */
export function clockResult(bounds: Parameters<typeof smallestDifference>[0] | undefined): Diagnosis {
  const todo = 'synchronize the clock of this machine (NTP): with a skew above 5 s, auto-cancel is suspended';
  if (!bounds) return warn('the service sends no readable Date', todo);
  const difference = smallestDifference(bounds);
  if (difference === 0) return ok("agrees with the service's");
  const skew = Math.abs(difference);
  const detail = `${(skew / 1000).toFixed(1)} s ${difference < 0 ? 'ahead of' : 'behind'} the service's`;
  if (skew <= MAX_CLOCK_SKEW) return ok(detail);
  return skew > CLOCK_FAILS ? fail(detail, todo) : warn(detail, todo);
}
