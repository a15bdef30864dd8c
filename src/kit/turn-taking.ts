/** Runs pieces of work one after the other, in the order in which they were asked for; one that fails holds up none. */
export function createTurnTaking(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return work => {
    const result = last.then(work);
    last = result.catch(() => undefined);
    return result;
  };
}
