import type { Reader } from '../upstream/api.ts';
import { isMissingPath } from '../upstream/errors.ts';
import type { Collector } from './collector.ts';

/**
 * Lets the service lack the data of an optional collector. A 404 shows that only if another list of the account is readable in the
 * same round: with a wrong region or path, all requests get 404.
 */
export function withAbsence<Facts, Memory, Walk>(
  collector: Collector<Facts, Memory, Walk>,
  readOther: (api: Reader, signal: AbortSignal) => Promise<unknown>,
): Collector<Facts, Memory, Walk> {
  return {
    ...collector,
    async observe(context) {
      try {
        return await collector.observe(context);
      } catch (error) {
        if (!isMissingPath(error)) throw error;
        await readOther(context.api, context.signal).catch(() => {
          throw error;
        });
        return { fold: memory => ({ memory, facts: undefined, changes: [] }), more: undefined, idle: 'absent' };
      }
    },
  };
}
