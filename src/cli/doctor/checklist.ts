import { type Clock, unlessAborted, withDeadline } from '../../kit/clock.ts';
import type { Env } from '../../kit/secret.ts';
import { boundText } from '../../kit/text.ts';

export interface Diagnosis {
  /** `warn`: works but should be changed. `skip`: does not apply, or a required check failed. */
  readonly status: 'ok' | 'warn' | 'fail' | 'skip';
  readonly detail: string;
  readonly todo?: string;
}

export interface DoctorDeps {
  readonly env: Env;
  readonly clock: Clock;
  readonly random: () => number;
  readonly signal: AbortSignal;
  readonly timeout?: number | undefined;
}

export interface CheckLine extends Diagnosis {
  readonly check: string;
  readonly account?: string;
}

export const ok = (detail: string): Diagnosis => ({ status: 'ok', detail });
export const warn = (detail: string, todo: string): Diagnosis => ({ status: 'warn', detail, todo });
export const fail = (detail: string, todo: string): Diagnosis => ({ status: 'fail', detail, todo });
export const skip = (detail: string): Diagnosis => ({ status: 'skip', detail });

/** Maximum duration of one check (ms). */
export const CHECK_TIMEOUT = 10_000;

/** Maximum length of a detail (characters). It may contain key names from the service. */
const MAX_DETAIL = 1000;

/** Returns the code or class of an error instead of its message, which may contain a secret. */
export function wordOf(error: unknown): string {
  const { code, name } = error as { readonly code?: unknown; readonly name?: string };
  return typeof code === 'string' ? code : (name ?? 'error');
}

/** Runs checks sequentially. A failed check skips only its dependents. */
export type Checklist = ReturnType<typeof createChecklist>;

export function createChecklist(
  { signal, timeout = CHECK_TIMEOUT }: Pick<DoctorDeps, 'signal' | 'timeout'>,
  account?: string,
) {
  const lines: CheckLine[] = [];

  async function find(run: (signal: AbortSignal) => Promise<Diagnosis> | Diagnosis): Promise<Diagnosis> {
    try {
      return await withDeadline(timeout, signal, deadline => unlessAborted(Promise.resolve(run(deadline)), deadline));
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (error instanceof Error && error.name === 'TimeoutError') {
        return fail(`no response within ${timeout / 1000} s`, 'check the network path: route, firewall, proxy');
      }
      return fail(`the check itself failed: ${wordOf(error)}`, 'report this line');
    }
  }

  return {
    lines: lines as readonly CheckLine[],
    /** Runs a check, or skips it if a required one failed or was skipped. Rejects only with the signal's reason. */
    async check(
      check: string,
      run: (signal: AbortSignal) => Promise<Diagnosis> | Diagnosis,
      needs: readonly CheckLine[] = [],
    ): Promise<CheckLine> {
      const missing = needs.find(({ status }) => status === 'fail' || status === 'skip');
      const found = missing ? skip(`needs ${missing.check}`) : await find(run);
      const line = {
        ...(account === undefined ? {} : { account }),
        check,
        ...found,
        detail: boundText(found.detail, MAX_DETAIL),
      };
      lines.push(line);
      return line;
    },
  };
}
