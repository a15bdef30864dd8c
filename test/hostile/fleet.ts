import { createRandom } from '../../src/emulator/random.ts';
import { requireProgram } from '../support/prometheus.ts';
import { createCertificate } from './certificate.ts';
import { startHealthyService } from './healthy-service.ts';
import { listenTcp } from './listen.ts';
import type { HostileService, Running, Site } from './service.ts';

/** Part of every token. It must not occur in any output of the agent. */
export const CANARY = 'canary-4d2e';

/** An account in the agent's configuration. */
export interface FleetAccount {
  readonly name: string;
  readonly baseUrl: string;
  readonly token: string;
  readonly budget: object;
  readonly upstream?: { readonly timeout: string };
}

export interface Fleet {
  readonly accounts: readonly FleetAccount[];
  /** Forbidden actions of the agent, without duplicates. */
  complaints(): readonly string[];
  close(): Promise<void>;
}

/** Budget that is never reached in these tests. */
const UNLIMITED = { requestsPerSecond: 1000, burst: 1000, requestsPerDay: 1_000_000_000 };

/** Returns the names of `count` accounts with healthy services. */
export const healthyNames = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => `healthy-${index + 1}`);

async function start(
  services: readonly Pick<HostileService, 'name' | 'budget' | 'timeout' | 'start'>[],
  seed: number,
  certificate: Site['certificate'],
): Promise<Fleet> {
  const random = createRandom(seed);
  const complaints = new Set<string>();
  const open: Running[] = [];
  const trap = await listenTcp(socket => {
    complaints.add('the trap received a connection');
    socket.destroy();
  });
  open.push(trap);
  const accounts: FleetAccount[] = [];
  for (const { name, budget, timeout, start } of services) {
    const token = `${CANARY}-${name}`;
    const complain = (what: string) => void complaints.add(`${name}: ${what}`);
    const running = await start({ token, trap: trap.url, certificate, random: random.fraction, complain });
    open.push(running);
    accounts.push({
      name,
      baseUrl: running.url,
      token,
      budget: { ...UNLIMITED, ...budget },
      ...(timeout && { upstream: { timeout } }),
    });
  }
  return {
    accounts,
    complaints: () => [...complaints],
    close: async () => void (await Promise.all(open.map(running => running.close()))),
  };
}

/** Omits services that require openssl if it is not installed; `requireProgram` reports that they are skipped. */
export function startableServices(services: readonly HostileService[]): HostileService[] {
  const hasOpenssl = requireProgram('openssl');
  return services.filter(({ tls }) => hasOpenssl || !tls);
}

export function startFleet(services: readonly HostileService[], seed: number): Promise<Fleet> {
  return start(services, seed, services.some(({ tls }) => tls) ? createCertificate() : { key: '', cert: '' });
}

/** Starts `count` healthy services. */
export const startHealthyFleet = (count: number): Promise<Fleet> =>
  start(
    healthyNames(count).map(name => ({ name, start: startHealthyService })),
    0,
    { key: '', cert: '' },
  );
