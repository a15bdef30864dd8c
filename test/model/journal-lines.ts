/** The journal as it was committed, with what was so when it was. */

import type { Change } from '../../src/model/change.ts';
import type { JournalEntry } from '../../src/model/journal.ts';
import type { Process } from './agent.ts';

export interface Line {
  readonly entry: JournalEntry;
  /** Milliseconds since the world began. */
  readonly committedAt: number;
  readonly process: Process;
  /** The section of the configuration under which it was written. */
  readonly policy: string;
}

export const PREFIX = 'auto-cancel/journal/';

export function linesOf(changes: readonly Change[], process: Process, now: number): Line[] {
  return changes.flatMap(({ key, value }) => {
    if (!key.startsWith(PREFIX) || value === null) return [];
    const entry = JSON.parse(value) as JournalEntry;
    return [{ entry, committedAt: now, process, policy: JSON.stringify(process.config.autoCancel) }];
  });
}

export const ofAction = (lines: readonly Line[], action: string) =>
  lines.filter(({ entry }) => entry.action === action);

/** Intents without an end. */
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

/** Why nothing may be done, of what the journal says of brakes; undefined when nothing. */
export function brakeIn(lines: readonly Line[]): string | undefined {
  let isPaused = false;
  const open = new Set<string>();
  for (const { entry } of lines) {
    if (entry.step === 'paused') isPaused = true;
    else if (entry.step === 'resumed') isPaused = false;
    else if (entry.step === 'breaker_opened') open.add(entry.breaker);
    else if (entry.step === 'breaker_reset') open.delete(entry.breaker);
  }
  return isPaused ? 'paused' : open.size > 0 ? `breaker ${[...open]}` : undefined;
}
