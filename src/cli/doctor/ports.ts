import { createServer } from 'node:net';
import { type Dispatcher, request } from 'undici';
import { parseListen } from '../../http/options.ts';
import { type Diagnosis, fail, ok, warn, wordOf } from './checklist.ts';

export interface PortDeps {
  /** Does not verify the certificate, because it rarely names the address of the port. */
  readonly dispatcher: Dispatcher;
  /** URL of the port, without a path. */
  readonly url: string;
  readonly hash: string;
  /** Id of the process that holds the store, if known. */
  readonly holder: number | undefined;
  readonly hostHeader: string | undefined;
  /** Whether the port requires TLS or authentication, or is the probe port. */
  readonly isGuarded: boolean;
}

/** Maximum number of characters of the response that are searched for the configuration hash. */
const MAX_READ = 1_000_000;

/** Opens and closes the port. Rejects if it cannot be opened. */
function tryPort(host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve()));
  });
}

/** Returns the agent's configuration hash; empty if a password is required; undefined if the port does not expose it. */
async function hashAt({ dispatcher, url, hostHeader }: PortDeps, signal: AbortSignal): Promise<string | undefined> {
  try {
    const { body, headers } = await request(`${url}/metrics/agent`, {
      dispatcher,
      signal,
      headers: hostHeader === undefined ? {} : { host: hostHeader },
    });
    let text = '';
    for await (const chunk of body) {
      text += String(chunk);
      if (text.length > MAX_READ) break;
    }
    if (String(headers['www-authenticate']).includes('realm="delivery-watch"')) return '';
    return /^delivery_watch_config_info\{hash="(\w+)"/m.exec(text)?.[1];
  } catch (error) {
    if (signal.aborted) throw error;
    return undefined;
  }
}

export async function checkPort(listen: string, deps: PortDeps, signal: AbortSignal): Promise<Diagnosis> {
  const { host, port } = parseListen(listen);
  try {
    await tryPort(host, port);
    return ok(`${listen} is free`);
  } catch (error) {
    const word = wordOf(error);
    if (word === 'EACCES') {
      return fail(`${listen} may not be opened by this user`, 'use a port above 1023, or grant CAP_NET_BIND_SERVICE');
    }
    if (word !== 'EADDRINUSE')
      return fail(`${listen} can't be opened: ${word}`, 'listen on an address of this machine');
  }
  const hash = await hashAt(deps, signal);
  if (hash === deps.hash) return ok(`${listen} is in use by an agent with this configuration`);
  if (hash) {
    return warn(
      `${listen} is in use by an agent with another configuration`,
      'restart that agent, or change this port',
    );
  }
  const { holder, isGuarded } = deps;
  if (holder !== undefined) return ok(`${listen} is in use, probably by process ${holder}, which holds the store`);
  if (hash === '') {
    return warn(`${listen} is in use by an agent that requires a password`, 'check whether that is this agent');
  }
  if (isGuarded) return warn(`${listen} is in use by an unknown program`, 'check whether that is this agent');
  return fail(`${listen} is in use by another program`, 'stop that program, or change the port here');
}
