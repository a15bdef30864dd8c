/** Runs pieces of asynchronous work sequentially, in the order of the calls. */
export type Serially = <T>(work: () => Promise<T>) => Promise<T>;

/** Returns an executor. The result of a call is that of its work; work that fails does not delay the next. */
export function createSerially(): Serially {
  let last: Promise<unknown> = Promise.resolve();
  return work => {
    const result = last.then(work);
    last = result.catch(() => undefined);
    return result;
  };
}
