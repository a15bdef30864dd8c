import type { Dialect } from './dialect.ts';
import type { LoggedEvent } from './message.ts';
import { fractionOf } from './random.ts';

/** Some events are listed later than others of their time. Times: milliseconds since the Unix epoch. */
export interface Lateness {
  /** The options as they are now hold for events after `horizon`: what is earlier may be listed already, and stays listed. */
  follow(horizon: number): void;
  /** Whether an event is held back while others are listed up to `until`; undefined when none is. */
  holding(until: number): ((event: LoggedEvent, time: number) => boolean) | undefined;
}

/** Which events are late, and by how much. */
interface Rule {
  readonly share: number;
  readonly mostMs: number;
}

/** What tells an event from others of its time. */
interface Identity {
  readonly message: Pick<LoggedEvent['message'], 'messageId'>;
  readonly state: LoggedEvent['state'];
}

/** Milliseconds by which this event is late: 0, or from 1 to `mostMs`. The same for the same seed, message, state and time. */
export function lateBy(seed: number, { message, state }: Identity, time: number, { share, mostMs }: Rule): number {
  const event = `${message.messageId} ${state} ${time}`;
  if (fractionOf(seed, `late ${event}`) >= share) return 0;
  return Math.ceil((1 - fractionOf(seed, `delay ${event}`)) * mostMs);
}

export function createLateness(seed: number, dialect: Dialect): Lateness {
  const rules: (Rule & { readonly after: number })[] = [];
  return {
    follow(horizon) {
      const { logLateShare: share, logLateMs: mostMs } = dialect;
      const last = rules.at(-1);
      if (last?.share === share && last.mostMs === mostMs) return;
      if (last?.after === horizon) rules.pop();
      rules.push({ share, mostMs, after: horizon });
    },
    holding(until) {
      const longest = Math.max(0, ...rules.map(({ share, mostMs }) => (share > 0 ? mostMs : 0)));
      if (longest === 0) return undefined;
      return (event, time) => {
        // Most events are too old to ask what was drawn for them.
        if (time + longest <= until) return false;
        const rule = rules.findLast(({ after }) => time > after);
        return rule !== undefined && time + lateBy(seed, event, time, rule) > until;
      };
    },
  };
}
