import type { Tracer } from '../../kit/tracer.ts';
import { OUTCOMES, type Reason } from '../../upstream/errors.ts';

/** Remembers what was asked, and how each request ended. */
export interface Recorder {
  readonly tracer: Tracer;
  /** Requests so far. */
  count(): number;
  /** Path of the last request, names in it instead of values. */
  lastPath(): string;
  /** How the last of the requests from number `since` on failed; undefined when none did. */
  lastFailure(since: number): Reason | undefined;
}

const isReason = (outcome: unknown): outcome is Reason => outcome !== 'ok' && OUTCOMES.some(each => each === outcome);

export function createRecorder(): Recorder {
  const requests: { readonly path: string; outcome: unknown }[] = [];
  return {
    count: () => requests.length,
    lastPath: () => requests.at(-1)?.path ?? '',
    lastFailure: since =>
      requests
        .slice(since)
        .map(({ outcome }) => outcome)
        .findLast(isReason),
    tracer: {
      headers: () => ({}),
      span(_name, attributes, work) {
        const request = { path: String(attributes['url.template']), outcome: undefined as unknown };
        requests.push(request);
        return work({
          set({ outcome = request.outcome }) {
            request.outcome = outcome;
          },
          fail() {},
        });
      },
    },
  };
}
