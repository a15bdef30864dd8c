import type { AutoCancelAccountsDeps } from '../../src/auto-cancel/accounts.ts';
import type { Log } from '../../src/kit/log.ts';
import type { Tracer } from '../../src/kit/tracer.ts';

export interface Line {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly fields: object;
  readonly message: string;
}

/** A log that collects its lines for the test. */
export function createTestLog(): Log & { readonly lines: Line[] } {
  const lines: Line[] = [];
  const at = (level: Line['level']) => (fields: object, message: string) => void lines.push({ level, fields, message });
  const log = {
    lines,
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: () => log,
  };
  return log;
}

/** A tracer that collects the names of its spans. */
export function createTestTracer(): Tracer & { readonly spans: string[] } {
  const spans: string[] = [];
  return {
    spans,
    span(name, _attributes, work) {
      spans.push(name);
      return work({ set: () => undefined, fail: () => undefined });
    },
  };
}

/** Sends no notices of journals. */
export const noJournals: AutoCancelAccountsDeps['journals'] = {
  watch: async () => undefined,
  unwatch: () => undefined,
};
