import { type FaultSeed, readFaults } from './fault.ts';
import { createRandom } from './random.ts';

/** A fault, and how often it has struck. */
interface Struck {
  readonly fault: FaultSeed;
  struck: number;
}

/** The faults that requests meet, in the order in which they were added; the first that strikes is the only one. */
export interface Faults {
  /** Adds a fault; the function that comes back takes it away. */
  add(fault: FaultSeed): () => void;
  /** These and no others. */
  replace(faults: readonly FaultSeed[]): void;
  clear(): void;
  list(): readonly Readonly<Struck>[];
  /** The fault that strikes a request to this endpoint, and its delay in milliseconds. */
  strike(endpoint: string): { readonly fault: FaultSeed; readonly delayMs: number } | undefined;
}

/** `standing` is a fault of the scenario, asked for at each request; it comes last. */
export function createFaults(seed: number, standing: () => FaultSeed | undefined): Faults {
  const random = createRandom(seed + 3);
  let all: Struck[] = [];

  function strikes({ fault, struck }: Struck, endpoint: string): boolean {
    if (fault.endpoint !== undefined && fault.endpoint !== endpoint) return false;
    if (fault.times !== undefined && struck >= fault.times) return false;
    return random.chance(fault.share ?? 1);
  }

  const checked = (fault: FaultSeed): Struck => ({ fault: readFaults(fault)[0] as FaultSeed, struck: 0 });

  return {
    add(fault) {
      const added = checked(fault);
      all.push(added);
      return () => {
        all = all.filter(other => other !== added);
      };
    },
    replace(faults) {
      all = faults.map(checked);
    },
    clear() {
      all = [];
    },
    list: () => all.map(each => ({ ...each })),
    strike(endpoint) {
      const now = standing();
      const found = [...all, ...(now ? [{ fault: now, struck: 0 }] : [])].find(each => strikes(each, endpoint));
      if (!found) return undefined;
      found.struck++;
      const { fault } = found;
      return { fault, delayMs: (fault.latencyMs ?? 0) + random.fraction() * (fault.jitterMs ?? 0) };
    },
  };
}
