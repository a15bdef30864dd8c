import { unlessAborted, withDeadline } from '../../kit/clock.ts';
import { boundText } from '../../kit/text.ts';

/** What a check found. Nothing in it is secret. */
export interface Finding {
  /** `warn`: works, and should be otherwise. `skip`: what it needs is not there. */
  readonly status: 'ok' | 'warn' | 'fail' | 'skip';
  readonly detail: string;
  /** What to do about it. */
  readonly todo?: string;
}

/** One line of the answer. */
export interface CheckLine extends Finding {
  readonly check: string;
  /** Undefined of what belongs to no account. */
  readonly account?: string;
}

/** Checks one after the other; a failed one keeps back only those that need it. */
export interface Checklist {
  readonly lines: readonly CheckLine[];
  /** Runs a check, unless one that it needs failed or was skipped. Never rejects, but with the reason of an aborted `signal`. */
  check(
    name: string,
    run: (signal: AbortSignal) => Promise<Finding> | Finding,
    needs?: readonly CheckLine[],
  ): Promise<CheckLine>;
}

export const ok = (detail: string): Finding => ({ status: 'ok', detail });
export const warn = (detail: string, todo: string): Finding => ({ status: 'warn', detail, todo });
export const fail = (detail: string, todo: string): Finding => ({ status: 'fail', detail, todo });
export const skip = (detail: string): Finding => ({ status: 'skip', detail });

/** Milliseconds that one check may take. */
export const LONGEST_CHECK = 10_000;

/** Characters that a line tells at most: the service chooses names of keys. */
const LONGEST_DETAIL = 1000;

/** A closed word for an error: its text may hold an address, and that a secret. */
export function wordOf(error: unknown): string {
  const { code, name } = error as { readonly code?: unknown; readonly name?: string };
  return typeof code === 'string' ? code : (name ?? 'error');
}

export function createChecklist({
  account,
  signal,
  timeout = LONGEST_CHECK,
}: {
  readonly account?: string;
  readonly signal: AbortSignal;
  readonly timeout?: number | undefined;
}): Checklist {
  const lines: CheckLine[] = [];

  async function find(run: (signal: AbortSignal) => Promise<Finding> | Finding): Promise<Finding> {
    try {
      return await withDeadline(timeout, signal, deadline => unlessAborted(Promise.resolve(run(deadline)), deadline));
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      if (error instanceof Error && error.name === 'TimeoutError') {
        return fail(`no answer within ${timeout / 1000} s`, 'look at the way there: route, firewall, proxy');
      }
      return fail(`the check itself failed: ${wordOf(error)}`, 'report this line');
    }
  }

  return {
    lines,
    async check(check, run, needs = []) {
      const missing = needs.find(({ status }) => status === 'fail' || status === 'skip');
      const found = missing ? skip(`needs ${missing.check}`) : await find(run);
      const line = {
        ...(account === undefined ? {} : { account }),
        check,
        ...found,
        detail: boundText(found.detail, LONGEST_DETAIL),
      };
      lines.push(line);
      return line;
    },
  };
}
