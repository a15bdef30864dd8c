/** Resolves in the next turn of the event loop: what else waits for it comes first. */
export const nextTurn = (): Promise<void> => new Promise(resolve => void setImmediate(resolve));

/** Goes through items, and lets everything else have a turn after every `atATime` of them. */
export async function* inTurns<T>(items: Iterable<T>, atATime: number): AsyncGenerator<readonly T[], void, void> {
  let slice: T[] = [];
  for (const item of items) {
    slice.push(item);
    if (slice.length < atATime) continue;
    yield slice;
    slice = [];
    await nextTurn();
  }
  if (slice.length > 0) yield slice;
}
