import { once } from 'node:events';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { type Fleet, type FleetAccount, startFleet } from './fleet.ts';
import type { HostileService } from './service.ts';
import { hostileServices } from './services.ts';
import { severeServices } from './size-services.ts';

interface Order {
  readonly names: readonly string[];
  readonly seed: number;
}

export interface FleetThread extends Pick<Fleet, 'accounts' | 'close'> {
  complaints(): Promise<readonly string[]>;
}

/** Messages from the thread: first the accounts, then the complaints each time they are requested. */
type Message = { readonly accounts: readonly FleetAccount[] } | { readonly complaints: readonly string[] };

/** Starts the services in a worker thread, so that they do not slow down the checks of the agent. */
export async function startFleetThread(services: readonly HostileService[], seed: number): Promise<FleetThread> {
  const order: Order = { names: services.map(({ name }) => name), seed };
  const worker = new Worker(new URL(import.meta.url), { workerData: order });
  const next = async () => (await once(worker, 'message'))[0] as Message;
  const first = await next();
  return {
    accounts: 'accounts' in first ? first.accounts : [],
    async complaints() {
      worker.postMessage('complaints');
      const answer = await next();
      return 'complaints' in answer ? answer.complaints : [];
    },
    close: async () => void (await worker.terminate()),
  };
}

if (!isMainThread && parentPort && (workerData as Order | undefined)?.names) {
  const port = parentPort;
  const { names, seed } = workerData as Order;
  const fleet = await startFleet(
    [...hostileServices, ...severeServices].filter(({ name }) => names.includes(name)),
    seed,
  );
  const post = (message: Message) => port.postMessage(message);
  port.on('message', () => post({ complaints: fleet.complaints() }));
  post({ accounts: fleet.accounts });
}
