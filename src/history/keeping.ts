import type { Turns } from '../kit/turns.ts';
import type { Change } from '../model/change.ts';
import { type Chunk, encodeChunk, STEPS, thin } from './chunk.ts';

/**
 * The changes that make rows fit, by their sizes in bytes: the samples of an hour are put further apart, step by step, first of
 * those that are large and old; when all are as far apart as can be, the oldest goes. `age`: in hours; the hour that goes on has
 * none and stays. What can't be loaded goes first.
 */
export async function* shrink(
  sizes: ReadonlyMap<string, number>,
  maxBytes: number,
  {
    age,
    load,
    turns,
  }: { age(key: string): number; load(key: string): Promise<Chunk | undefined>; readonly turns: Turns },
): AsyncGenerator<Change> {
  const left = new Map([...sizes].filter(([key]) => age(key) > 0));
  let bytes = [...sizes].reduce((sum, [key, size]) => sum + key.length + size, 0);
  /** Those whose samples can't be put further apart. */
  const thinnest = new Set<string>();
  const weight = ([key, size]: [string, number]) => size * age(key);
  while (bytes > maxBytes && left.size > 0) {
    await turns.pass();
    const thick = [...left].filter(([key]) => !thinnest.has(key));
    const [key, size] = (thick.length > 0 ? thick : [...left]).reduce((a, b) =>
      (thick.length > 0 ? weight(b) > weight(a) : b[0] < a[0]) ? b : a,
    );
    const chunk = thinnest.has(key) ? undefined : await load(key);
    const step = chunk && STEPS[STEPS.indexOf(chunk.step) + 1];
    if (chunk && step === undefined) {
      thinnest.add(key);
      continue;
    }
    const next = chunk && step ? encodeChunk(thin(chunk, step)) : null;
    bytes -= size - (next?.length ?? -key.length);
    if (next === null) left.delete(key);
    else left.set(key, next.length);
    yield { key, value: next };
  }
}
