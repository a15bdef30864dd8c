import type { Turns } from '../kit/turns.ts';
import type { Change } from '../model/change.ts';
import { type Chunk, encodeChunk, STEPS, thin } from './chunk.ts';

/** Bytes of a row in the store. */
const sizeOf = (key: string, text: string) => key.length + text.length;

/**
 * The changes that make rows fit: the samples of an hour are put further apart, step by step, first of those that are large
 * and old; when all are as far apart as can be, the oldest goes. `age`: in hours; the hour that goes on has none and stays.
 * What can't be decoded goes first.
 */
export async function* shrink(
  rows: ReadonlyMap<string, string>,
  maxBytes: number,
  {
    age,
    decode,
    turns,
  }: { age(key: string): number; decode(key: string, text: string): Chunk | undefined; readonly turns: Turns },
): AsyncGenerator<Change> {
  const left = new Map([...rows].filter(([key]) => age(key) > 0));
  let bytes = [...rows].reduce((sum, [key, text]) => sum + sizeOf(key, text), 0);
  /** Those whose samples can't be put further apart. */
  const thinnest = new Set<string>();
  const changed = new Map<string, string | null>();
  while (bytes > maxBytes && left.size > 0) {
    await turns.pass();
    const weight = ([key, text]: [string, string]) => text.length * age(key);
    const thick = [...left].filter(([key]) => !thinnest.has(key));
    const [key, text] = (thick.length > 0 ? thick : [...left]).reduce((a, b) =>
      (thick.length > 0 ? weight(b) > weight(a) : b[0] < a[0]) ? b : a,
    );
    const chunk = thinnest.has(key) ? undefined : decode(key, text);
    const step = chunk && STEPS[STEPS.indexOf(chunk.step) + 1];
    if (chunk && step === undefined) {
      thinnest.add(key);
      continue;
    }
    const next = chunk && step ? encodeChunk(thin(chunk, step)) : null;
    bytes -= text.length - (next?.length ?? -key.length);
    if (next === null) left.delete(key);
    else left.set(key, next);
    changed.set(key, next);
  }
  for (const [key, value] of changed) yield { key, value };
}
