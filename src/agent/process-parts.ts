import type { LoadedConfig } from '../config/load.ts';

/** A part that all accounts share and that a reload replaces, such as the notifiers or the listener. */
export interface ProcessPart {
  /** Creates the part for a configuration, next to the current one. If it rejects, nothing has changed. */
  prepare(loaded: LoadedConfig): Promise<PreparedPart> | PreparedPart;
}

/** Exactly one of its functions is called, once. They never reject. */
export interface PreparedPart {
  commit(): Promise<void> | void;
  discard(): Promise<void> | void;
}

/** Prepares all parts in order. If one rejects, discards those before it and rejects with its error. */
export async function prepareParts(parts: readonly ProcessPart[], loaded: LoadedConfig): Promise<PreparedPart> {
  const prepared: PreparedPart[] = [];
  async function discard(): Promise<void> {
    for (const part of prepared.toReversed()) await part.discard();
  }
  try {
    for (const part of parts) prepared.push(await part.prepare(loaded));
  } catch (error) {
    await discard();
    throw error;
  }
  return {
    discard,
    async commit() {
      for (const part of prepared) await part.commit();
    },
  };
}
