import { isEnding } from './kept-event.ts';
import { follow, type Limits } from './lifecycle.ts';
import { count, forgetMinutes, type Memory, MINUTE } from './memory.ts';
import type { RangeRead } from './read.ts';

/** Minutes that are read at a time, unless they hold very many events. */
const MOST_MINUTES = 5;
const MANY = 50_000;

/** Returns the whole minutes that became older than `lateSweep` and that no other read covers, or undefined. */
export function nextRange(
  { checkpoint, minutes }: Memory,
  now: number,
  lateSweep: number,
): { from: number; to: number } | undefined {
  if (!checkpoint) return undefined;
  const from = checkpoint.sweptTo + 1;
  let end = Math.floor(from / MINUTE) + 1;
  let events = minutes.get(end - 1)?.length ?? 0;
  while (end < from / MINUTE + MOST_MINUTES && events < MANY) {
    events += minutes.get(end)?.length ?? 0;
    end += 1;
  }
  // As old as it must be by the log's own time, too: our clock may be ahead of the service's.
  const settled = (checkpoint.newest ?? 0) + Math.max(0, now - checkpoint.foundAt);
  const limit = Math.min(Math.min(now, settled) - lateSweep, checkpoint.dedupeFrom - 1, end * MINUTE - 1);
  const to = Math.floor((limit + 1) / MINUTE) * MINUTE - 1;
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
    // Minutes may have been given up meanwhile, and what was known of them forgotten.
    if (known.has(identity) || event.time <= checkpoint.sweptTo) continue;
    count(memory, event);
    log.late += 1;
    touched.add('log');
    const listed = range.rows?.get(identity);
    if (listed) memory.traces?.add(event, listed, true);
    memory.attempts?.add(event);
    // Its place among the others is past. But without its end the message would stay in flight.
    if (isEnding(event.state)) follow(memory, event, limits, false);
    else if (event.schedules) memory.schedules.follow(event, undefined);
  }
  checkpoint.sweptTo = Math.max(checkpoint.sweptTo, range.to);
  touched.add('checkpoint');
  forgetMinutes(memory, range.to);
}
