import type { Yielder } from '../kit/yielder.ts';
import { encodeChunk, SAMPLE_STEPS, thin } from './chunk.ts';
import { type HistoryRows, rowBytes } from './rows.ts';

/**
 * Shrinks rows to their limit: deletes damaged ones, thins large and old hours, then deletes the oldest. Keeps the current hour,
 * `now`. Rejects with StoreError.
 */
export async function shrink(
  rows: Pick<HistoryRows, 'load' | 'set'>,
  sizes: ReadonlyMap<number, number>,
  maxBytes: number,
  now: number,
  turns: Yielder,
): Promise<void> {
  const left = new Map([...sizes].filter(([hour]) => hour < now));
  let bytes = sizes.values().reduce((sum, size) => sum + size, 0);
  const thinnest = new Set<number>();
  const weight = ([hour, size]: [number, number]) => size * (now - hour);
  while (bytes > maxBytes && left.size > 0) {
    await turns.pass();
    const thick = [...left].filter(([hour]) => !thinnest.has(hour));
    const [hour, size] = (thick.length > 0 ? thick : [...left]).reduce((a, b) =>
      (thick.length > 0 ? weight(b) > weight(a) : b[0] < a[0]) ? b : a,
    );
    const chunk = thinnest.has(hour) ? undefined : await rows.load(hour);
    const step = chunk && SAMPLE_STEPS[SAMPLE_STEPS.indexOf(chunk.step) + 1];
    if (chunk && step === undefined) {
      thinnest.add(hour);
      continue;
    }
    const next = chunk && step ? encodeChunk(thin(chunk, step)) : null;
    rows.set(hour, next);
    bytes -= size;
    if (next === null) left.delete(hour);
    else {
      left.set(hour, rowBytes(next));
      bytes += rowBytes(next);
    }
  }
}
