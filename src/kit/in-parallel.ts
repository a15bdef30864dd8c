/** Processes items in order, at most `limit` concurrently. Rejects with the first error. */
export async function inParallel<T>(
  items: Iterable<T>,
  limit: number,
  work: (item: T, index: number) => Promise<void>,
): Promise<void> {
  const queue = [...items].entries();
  const worker = async () => {
    for (const [index, item] of queue) await work(item, index);
  };
  await Promise.all(Array.from({ length: limit }, worker));
}
