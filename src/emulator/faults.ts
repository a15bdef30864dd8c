import { z } from 'zod';
import { createRandom } from './random.ts';

/** A fault in responses. Times are in milliseconds of real time. */
export const FaultSeed = z.strictObject({
  endpoint: z
    .string()
    .optional()
    .describe('such as `GET /v2/dlq` or `DELETE /v2/workflows/dlq/callback/{dlqId}`; default: every endpoint'),
  share: z.coerce.number().min(0).max(1).optional().describe('share of the requests that fail; default: 1'),
  times: z.coerce.number().int().min(1).optional().describe('number of requests that fail; default: no limit'),
  latencyMs: z.coerce.number().min(0).max(3_600_000).optional().describe('delay before anything else'),
  jitterMs: z.coerce.number().min(0).max(3_600_000).optional().describe('maximum random extra delay'),
  kind: z
    .enum(['status', 'hang', 'reset', 'truncate', 'drip', 'html', 'region'])
    .optional()
    .describe(
      'status: error status; hang: no response; reset: connection reset; truncate: half a body; drip: body byte by byte; html: an HTML page instead of the response; region: 404 as for a token of another region',
    ),
  status: z.coerce
    .number()
    .int()
    .min(200)
    .max(599)
    .optional()
    .describe('status code, for status (default 503) and html (default 200)'),
  retryAfter: z.coerce.number().int().min(0).optional().describe('seconds in the Retry-After header, for status'),
  dripMs: z.coerce.number().min(1).max(60_000).optional().describe('delay between two bytes of a drip; default: 100'),
  date: z
    .string()
    .optional()
    .describe('Date header: none, the difference to the right time in ms such as -600000, or any other text'),
  acts: z
    .union([z.boolean(), z.stringbool()])
    .optional()
    .describe('the request takes effect although its response is lost or wrong; always true for truncate and drip'),
});

export type FaultSeed = Readonly<z.infer<typeof FaultSeed>>;

/** Parses one fault or a list of faults. Throws a RangeError if one is invalid. */
export function readFaults(value: unknown): FaultSeed[] {
  return (Array.isArray(value) ? value : [value]).map(each => {
    const { data, error } = FaultSeed.safeParse(each);
    if (data) return data;
    const wrong = error.issues.map(({ path, message }) => [...path, message].join(': '));
    throw new RangeError(`invalid fault: ${wrong.join('; ')}`);
  });
}

/** Parses `name=value,name=value` from the command line. Throws a RangeError if the fault is invalid. */
export function readFault(text: string): FaultSeed {
  const pairs = text.split(',').map(pair => {
    const [name = '', ...rest] = pair.split('=');
    return [name, rest.join('=')];
  });
  return readFaults(Object.fromEntries(pairs))[0] as FaultSeed;
}

export function faultHelp(): string[] {
  return Object.entries(FaultSeed.shape).map(([name, field]) => `${name}\n      ${field.description}`);
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

  const checked = (fault: FaultSeed): ActiveFault => ({ fault: readFaults(fault)[0] as FaultSeed, struck: 0 });

  return {
    add(fault: FaultSeed): () => void {
      const added = checked(fault);
      all.push(added);
      return () => {
        all = all.filter(other => other !== added);
      };
    },
    replace(faults: readonly FaultSeed[]): void {
      all = faults.map(checked);
    },
    clear(): void {
      all = [];
    },
    list: (): readonly Readonly<ActiveFault>[] => all.map(each => ({ ...each })),
    /** Returns the fault for a request to this endpoint, and its delay (ms); undefined if no fault applies. */
    draw(endpoint: string): { readonly fault: FaultSeed; readonly delayMs: number } | undefined {
      const now = ofScenario();
      const found = [...all, ...(now ? [{ fault: now, struck: 0 }] : [])].find(each => strikes(each, endpoint));
      if (!found) return undefined;
      found.struck++;
      const { fault } = found;
      return { fault, delayMs: (fault.latencyMs ?? 0) + random.fraction() * (fault.jitterMs ?? 0) };
    },
  };
}
