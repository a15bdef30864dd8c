/** Runs work sequentially, in the order of the calls. */
export type Serially = <T>(work: () => Promise<T>) => Promise<T>;

/** Returns an executor. Failed work does not prevent later work. */
export function createSerially(): Serially {
  let last: Promise<unknown> = Promise.resolve();
  return work => {
    const result = last.then(work);
    last = result.catch(() => undefined);
    return result;
  };
}
