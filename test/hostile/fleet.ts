import { createRandom } from '../../src/emulator/random.ts';
import { requireProgram } from '../support/prometheus.ts';
import { createCertificate } from './certificate.ts';
import { listenTcp } from './listen.ts';
import type { HostileService, Running, Site } from './service.ts';
import { startWellService } from './well-service.ts';

/** In every token, and in nothing that the agent may say. */
export const CANARY = 'canary-4d2e';

/** An account as the agent's configuration has it. */
export interface FleetAccount {
  readonly name: string;
  readonly baseUrl: string;
  readonly token: string;
  readonly budget: object;
  readonly upstream?: { readonly timeout: string };
}

export interface Fleet {
  readonly accounts: readonly FleetAccount[];
  /** What the agent did that it must never do, each once. */
  complaints(): readonly string[];
  close(): Promise<void>;
}

/** Without limit, as far as these tests can tell. */
const UNLIMITED = { requestsPerSecond: 1000, burst: 1000, requestsPerDay: 1_000_000_000 };

/** Names of accounts whose service is well. */
export const wellNames = (count: number): string[] => Array.from({ length: count }, (_, index) => `well-${index + 1}`);

async function start(
  services: readonly Pick<HostileService, 'name' | 'budget' | 'timeout' | 'start'>[],
  seed: number,
  certificate: Site['certificate'],
): Promise<Fleet> {
  const random = createRandom(seed);
  const complaints = new Set<string>();
  const open: Running[] = [];
  const trap = await listenTcp(socket => {
    complaints.add('the trap: somebody came');
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

/** Those of `services` that need no program that is not here; the others are said to be skipped. */
export function startableServices(services: readonly HostileService[]): HostileService[] {
  const hasOpenssl = requireProgram('openssl');
  return services.filter(({ tls }) => hasOpenssl || !tls);
}

export function startFleet(services: readonly HostileService[], seed: number): Promise<Fleet> {
  return start(services, seed, services.some(({ tls }) => tls) ? createCertificate() : { key: '', cert: '' });
}

/** Starts `count` services that are well. */
export const startWellFleet = (count: number): Promise<Fleet> =>
  start(
    wellNames(count).map(name => ({ name, start: startWellService })),
    0,
    { key: '', cert: '' },
  );
