import type { ClientDeps } from '../../agent/account-client.ts';
import { unlessAborted, withDeadline } from '../../kit/clock.ts';
import { errorCode } from '../../kit/error-code.ts';
import { StoreError } from '../../store/errors.ts';
import { remedyOf, UpstreamError } from '../../upstream/errors.ts';

export interface Diagnosis {
  /** `warn`: works but should be changed. `skip`: does not apply, or a required probe failed. */
  readonly status: 'ok' | 'warn' | 'fail' | 'skip';
  readonly detail: string;
  /** Remedy for a warning or failure. */
  readonly todo?: string;
}

export interface Probe {
  readonly account?: string;
  readonly name: string;
  /** Names of earlier probes. If one of them failed or was skipped, this probe is skipped. */
  readonly needs?: readonly string[];
  /** If it rejects, the runner reports the error. */
  run(signal: AbortSignal): Promise<Diagnosis> | Diagnosis | readonly Diagnosis[];
}

export type CheckLine = Diagnosis & Pick<Probe, 'account'> & { readonly check: string };

export interface DoctorDeps extends Pick<ClientDeps, 'env' | 'clock' | 'random'> {
  readonly signal: AbortSignal;
  /** Maximum duration of one probe (ms). Default: `TIME_LIMIT`. */
  readonly timeout?: number | undefined;
}

export const TIME_LIMIT = 10_000;

export const ok = (detail: string): Diagnosis => ({ status: 'ok', detail });
export const warn = (detail: string, todo: string): Diagnosis => ({ status: 'warn', detail, todo });
export const fail = (detail: string, todo: string): Diagnosis => ({ status: 'fail', detail, todo });
export const skip = (detail: string): Diagnosis => ({ status: 'skip', detail });

/** Shows only messages that contain no secret. A rejected token is reported once, by the probe of the token. */
function toDiagnosis(error: unknown): Diagnosis {
  const { name, message } = error as Error;
  if (error instanceof StoreError) return fail(message.replace(`: ${error.remedy}`, ''), error.remedy);
  if (error instanceof UpstreamError) {
    return error.reason === 'unauthorized' ? skip('needs token') : fail(message, remedyOf(error));
  }
  if (name === 'TimeoutError') return fail(message, 'check the network path: route, firewall, proxy');
  return fail(`the check itself failed: ${errorCode(error)}`, 'report this line');
}

/** Runs probes sequentially. Returns one or more lines of each. Rejects only with the signal's reason. */
export async function runProbes(
  probes: readonly Probe[],
  { signal, timeout = TIME_LIMIT }: DoctorDeps,
): Promise<readonly CheckLine[]> {
  const lines: CheckLine[] = [];
  for (const { name: check, needs = [], run, ...account } of probes) {
    const missing = lines.find(line => needs.includes(line.check) && /fail|skip/.test(line.status));
    const work = async (deadline: AbortSignal) => (missing ? skip(`needs ${missing.check}`) : run(deadline));
    const limited = withDeadline(timeout, signal, deadline => unlessAborted(work(deadline), deadline));
    const found = [await limited.catch(toDiagnosis)].flat();
    signal.throwIfAborted();
    lines.push(...found.map(each => ({ ...account, check, ...each })));
  }
  return lines;
}
