export type Closing = ReturnType<typeof createClosing>;

export function createClosing() {
  const steps: { name: string; close: () => unknown }[] = [];
  return {
    add: (name: string, close: () => unknown): void => void steps.push({ name, close }),
    /** Closes everything in reverse order. Continues after failures and throws them together. */
    async close(): Promise<void> {
      const errors: unknown[] = [];
      for (const step of steps.splice(0).reverse()) {
        try {
          await step.close();
        } catch (error) {
          errors.push(new Error(`${step.name} did not close`, { cause: error }));
        }
      }
      if (errors.length > 0) throw new AggregateError(errors, 'some parts did not close');
    },
  };
}

/** Runs `work`, then closes the resources that it added, even if it fails. */
export async function withClosing<T>(work: (closing: Closing) => Promise<T>): Promise<T> {
  const closing = createClosing();
  try {
    return await work(closing);
  } finally {
    await closing.close();
  }
}
