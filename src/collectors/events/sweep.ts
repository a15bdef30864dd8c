import { MINUTE } from '../../kit/duration.ts';
import { isEnding, isResult } from './kept-event.ts';
import { follow, type Limits } from './lifecycle.ts';
import { countByDestination, dropMinutes, type Memory } from './memory.ts';
import type { RangeRead } from './read.ts';
import { addResult, settleRedeliveries } from './redeliveries.ts';

/** Maximum length of a range (minutes). */
const MAX_MINUTES = 5;
/** Number of known events at which a range is no longer extended. */
const MANY = 50_000;

/**
 * Returns the next range older than `lateSweep` and outside the overlap of other reads, or undefined. Ranges end with a minute. In a
 * quiet log, the last one ends where the tail starts, because neither would read the rest of that minute.
 */
export function nextRange(
  { checkpoint, minutes }: Memory,
  now: number,
  lateSweep: number,
): { from: number; to: number } | undefined {
  if (!checkpoint) return undefined;
  const from = checkpoint.sweptTo + 1;
  let end = Math.floor(from / MINUTE) + 1;
  let events = minutes.get(end - 1)?.length ?? 0;
  while (end < from / MINUTE + MAX_MINUTES && events < MANY) {
    events += minutes.get(end)?.length ?? 0;
    end += 1;
  }
  // The range must be older than `lateSweep` by the log's timestamps, too: the service's time may be wrong.
  const settled = (checkpoint.newest ?? 0) + Math.max(0, now - checkpoint.foundAt);
  const limit = Math.min(Math.min(now, settled) - lateSweep, checkpoint.dedupeFrom - 1, end * MINUTE - 1);
  const wholeMinutes = Math.floor((limit + 1) / MINUTE) * MINUTE - 1;
  const to = limit === checkpoint.dedupeFrom - 1 ? limit : wholeMinutes;
  return to >= from ? { from, to } : undefined;
}

export function foldSweep(memory: Memory, range: RangeRead, limits: Limits): void {
  const { checkpoint, log, minutes, touched } = memory;
  if (!checkpoint) return;
  const known = new Set<bigint>();
  for (let minute = Math.floor(range.from / MINUTE); minute * MINUTE <= range.to; minute += 1) {
    for (const identity of minutes.get(minute) ?? []) known.add(identity);
  }
  for (const event of range.events.values()) {
    const { identity } = event;
    // Minutes dropped since the read of this range started have no identities to compare with.
    if (known.has(identity) || event.time <= checkpoint.sweptTo) continue;
    countByDestination(memory, event);
    log.late += 1;
    touched.add('log');
    const listed = range.rows?.get(identity);
    if (listed) memory.traces?.add(event, listed, true);
    // Lifecycles have advanced past this event. Only a missing result or final event matters.
    if (isResult(event.state)) addResult(memory, event);
    if (isEnding(event.state)) follow(memory, event, limits, false);
    else if (event.schedules) memory.schedules.follow(event, undefined);
  }
  checkpoint.sweptTo = Math.max(checkpoint.sweptTo, range.to);
  settleRedeliveries(memory);
  touched.add('checkpoint');
  dropMinutes(memory, range.to);
}
