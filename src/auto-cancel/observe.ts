import { z } from 'zod';
import { OBSERVED_FOR } from '../metrics/thresholds.ts';
import type { CallbackFacts } from '../model/callback.ts';
import type { JournalEntry, JournalTarget, PlanOutcome } from '../model/journal.ts';
import type { Store } from '../store/store.ts';
import type { Reader } from '../upstream/api.ts';
import { parseRow } from './brake.ts';
import type { Contexts, ContextsDeps } from './context.ts';
import { callbackStateOf, rereadEntry } from './look-up.ts';

/** Row with the start of the last walk that found each open plan in progress (ms since the Unix epoch), by action. */
const SEEN = 'auto-cancel/plans-seen';
const seenRow = z.array(z.tuple([z.string(), z.number()]));

type Result = readonly [outcome: PlanOutcome, reason: string] | undefined;

/** Reads how a callback ended; undefined if the service does not show an end. */
async function readEnd(target: JournalTarget, reader: Reader, signal: AbortSignal): Promise<Result> {
  const entry = await rereadEntry(reader, target, signal);
  if (entry && entry.callbackMessageId !== target.callbackMessageId) return ['unknown', 'another_episode'];
  const state = callbackStateOf(entry);
  if (state === 'success') return ['success', 'read_success'];
  if (state === 'fail') return ['failed', 'read_fail'];
  return state === 'canceled' || state === 'gone' ? ['unknown', `read_${state}`] : undefined;
}

/**
 * Compares open plans with a complete walk and journals their outcomes. The end of a callback counts as seen only if it
 * is read within `maxGap` after the last walk that found it in progress. Rejects with StoreError or the signal's reason.
 */
export async function observePlans(
  { at: walkAt, sightings, maxGap }: CallbackFacts,
  deps: Pick<ContextsDeps, 'account' | 'journal' | 'clock'> & { readonly reader: Reader; readonly store: Store },
  { elapsed, stamp }: Contexts['time'],
  signal: AbortSignal,
): Promise<void> {
  const { account, journal, reader, store } = deps;
  const { open } = journal.state.plans;
  if (open.size === 0) return;
  const now = deps.clock.now();
  const seen = new Map(parseRow(seenRow, (await store.scan(account, SEEN)).get(SEEN)));
  const found = new Map(sightings.map(({ entry, episode }) => [`${entry.dlqId} ${entry.messageId} ${episode}`, entry]));
  const next: z.infer<typeof seenRow> = [];
  const lines: JournalEntry[] = [];

  for (const [action, { at, rule, target }] of open) {
    const entry = found.get(`${target.dlqId} ${target.messageId} ${target.episode}`);
    const lastSeenAt = entry ? walkAt : (seen.get(action) ?? at);
    let result: Result;
    if (entry) {
      // Setting the wall clock forward must not end the observation.
      const isOver = Math.min(walkAt, elapsed()) - at >= OBSERVED_FOR;
      if (entry.callbackState === undefined) result = ['unknown', 'no_state'];
      else if (isOver) result = ['in_progress', 'observed'];
    } else if (Math.abs(now - lastSeenAt) > maxGap) result = ['unknown', 'end_not_seen'];
    // A failed look-up is repeated after the next walk.
    else result = await readEnd(target, reader, signal).catch(() => undefined);
    signal.throwIfAborted();
    if (!result) next.push([action, lastSeenAt]);
    else lines.push({ at: stamp(), action, step: 'observed', outcome: result[0], reason: result[1], rule, target });
  }
  const value = next.length === 0 ? null : JSON.stringify(next);
  await journal.append(lines, { changes: [{ key: SEEN, value }] });
}
