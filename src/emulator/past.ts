import { CALLERS, destinations } from './destinations.ts';
import type { DlqEntry, SharedDeadLetter } from './message.ts';
import { createRandom } from './random.ts';
import type { Timeline } from './timeline.ts';

export interface PastParts {
  readonly seed: number;
  /** How many entries to make. */
  readonly entries: number;
  /** Milliseconds since the Unix epoch: the past reaches from `from` to below `to`. */
  readonly from: number;
  readonly to: number;
  readonly dlq: Timeline<DlqEntry>;
}

/** What is older than this was left behind by people who look after dead letters, and waits for its retention to end. */
const NEGLECTED_AFTER_MS = 12 * 3_600_000;

/** Fills the dead-letter queue with entries of a past that the workload does not play: few old ones, more recent ones. */
export function fillPast({ seed, entries, from, to, dlq }: PastParts): void {
  const random = createRandom(seed + 1);
  const templates = (neglected: boolean): SharedDeadLetter[] =>
    destinations
      .filter(each => (each.neglected ?? false) === neglected)
      .flatMap(each => each.statuses.map(responseStatus => ({ fields: each.fields, responseStatus })))
      .flatMap(each =>
        CALLERS.map(callerIP => ({ ...each, callerIP, seed, lifetimeMs: random.between(5000, 2_000_000) })),
      );
  const recent = templates(false);
  const old = templates(true);
  for (let index = 0; index < entries; index++) {
    // Ages fall with the cube of the index, so they come out sorted: earliest first.
    const age = (to - from) * (1 - (index + random.fraction()) / entries) ** 3;
    dlq.add(Math.min(to - 1, Math.floor(to - age)), random.pick(age > NEGLECTED_AFTER_MS ? old : recent));
  }
}
