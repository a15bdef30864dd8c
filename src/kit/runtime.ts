import type { Clock } from './clock.ts';
import type { Log } from './log.ts';
import type { Env } from './secret.ts';
import type { Tracer } from './tracer.ts';

/** Dependencies of most parts of a process. */
export interface Runtime {
  readonly env: Env;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Log;
  readonly tracer: Tracer;
}
