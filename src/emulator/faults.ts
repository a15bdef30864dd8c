import { createRandom } from './random.ts';

/** A fault in responses. Times are in milliseconds of real time. */
export interface FaultSeed {
  /** Such as `GET /v2/dlq` or `DELETE /v2/workflows/dlq/callback/{dlqId}`; default: every endpoint. */
  readonly endpoint?: string;
  /** Share of the requests that fail; default 1. */
  readonly share?: number;
  /** Number of requests that fail; default: no limit. */
  readonly times?: number;
  /** Delay before the request is handled or the fault of `kind` takes effect. */
  readonly latencyMs?: number;
  /**
   * `status`: error status; `hang`: no response; `reset`: connection reset; `truncate`: half a body; `drip`: body byte by byte;
   * `html`: an HTML page instead of the response.
   */
  readonly kind?: 'status' | 'hang' | 'reset' | 'truncate' | 'drip' | 'html';
  /** Status code of the kinds `status` (default 503) and `html` (default 200). */
  readonly status?: number;
  /** Seconds in the Retry-After header of the kind `status`. */
  readonly retryAfter?: number;
  /** Added to the time in the Date header. */
  readonly dateMs?: number;
  /** Delay between two bytes of a drip; default 100. */
  readonly dripMs?: number;
  /** The request takes effect although its response is lost or wrong. Always true for `truncate` and `drip`. */
  readonly acts?: boolean;
}

interface ActiveFault {
  readonly fault: FaultSeed;
  struck: number;
}

/** Faults in the order added. Only the first that applies to a request takes effect. */
export type Faults = ReturnType<typeof createFaults>;

/** Creates an empty list of faults. `ofScenario`: returns the scenario's current fault, which is tried last. */
export function createFaults(seed: number, ofScenario: () => FaultSeed | undefined) {
  const random = createRandom(seed + 3);
  let all: ActiveFault[] = [];

  function strikes({ fault, struck }: ActiveFault, endpoint: string): boolean {
    if (fault.endpoint !== undefined && fault.endpoint !== endpoint) return false;
    if (fault.times !== undefined && struck >= fault.times) return false;
    return random.chance(fault.share ?? 1);
  }

  return {
    add(fault: FaultSeed): () => void {
      const added = { fault, struck: 0 };
      all.push(added);
      return () => {
        all = all.filter(other => other !== added);
      };
    },
    replace(faults: readonly FaultSeed[]): void {
      all = faults.map(fault => ({ fault, struck: 0 }));
    },
    clear(): void {
      all = [];
    },
    /** Returns the fault for a request to this endpoint; undefined if no fault applies. */
    draw(endpoint: string): FaultSeed | undefined {
      const now = ofScenario();
      const found = [...all, ...(now ? [{ fault: now, struck: 0 }] : [])].find(each => strikes(each, endpoint));
      if (!found) return undefined;
      found.struck++;
      return found.fault;
    },
  };
}
