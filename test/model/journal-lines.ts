/** Committed journal lines, with the process that committed them and its policy at that time. */

import type { Change } from '../../src/model/change.ts';
import type { Breaker, JournalEntry } from '../../src/model/journal.ts';
import type { Process } from './agent.ts';

export interface Line {
  readonly entry: JournalEntry;
  /** Time since the world's start (ms). */
  readonly committedAt: number;
  /** Position of the line in the world's sequence of events. */
  readonly sequence: number;
  /** Position of the commit's response in the sequence of events; undefined until it arrives. */
  returned: number | undefined;
  readonly process: Process;
  /** The process's configuration of auto-cancel at that time (JSON). */
  readonly policy: string;
}

export const PREFIX = 'auto-cancel/journal/';

export function linesOf(changes: readonly Change[], process: Process, now: number, next: () => number): Line[] {
  return changes.flatMap(({ key, value }) => {
    if (!key.startsWith(PREFIX) || value === null) return [];
    const entry = JSON.parse(value) as JournalEntry;
    const policy = JSON.stringify(process.config.autoCancel);
    return [{ entry, committedAt: now, sequence: next(), returned: undefined, process, policy }];
  });
}

export const ofAction = (lines: readonly Line[], action: string) =>
  lines.filter(({ entry }) => entry.action === action);

/** Returns the actions that have an intent but have not ended. */
export function openActions(
  lines: readonly Line[],
): ReadonlyMap<string, { readonly id: string; readonly attempt: number }> {
  const open = new Map<string, { id: string; attempt: number }>();
  for (const { entry } of lines) {
    if (entry.step === 'intent') open.set(entry.action, { id: entry.target.id, attempt: entry.attempt });
    else if (entry.step === 'ended') open.delete(entry.action);
  }
  return open;
}

/** Returns the breakers that are open according to the journal. */
export function openBreakers(lines: readonly Line[]): ReadonlySet<Breaker> {
  const open = new Set<Breaker>();
  for (const { entry } of lines) {
    if (entry.step === 'breaker_opened') open.add(entry.breaker);
    else if (entry.step === 'breaker_reset') open.delete(entry.breaker);
  }
  return open;
}
