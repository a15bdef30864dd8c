/** One at a time: each answer may hold thousands of rows, and a crowd of them all the memory. */
export type Serially = <T>(work: () => Promise<T>) => Promise<T>;

export function createSerially(): Serially {
  let last: Promise<unknown> = Promise.resolve();
  return work => {
    const answer = last.then(work);
    last = answer.catch(() => undefined);
    return answer;
  };
}
