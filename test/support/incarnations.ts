import { settle } from './manual-clock.ts';
import type { Opening } from './supervised.ts';

type Work = 'open' | 'start' | 'request' | 'commit' | 'lingering request';

/** One opening of an account by the supervisor; it lasts until the account is closed. */
export interface Incarnation {
  readonly number: number;
  readonly name: string;
  /** Identifies the account of the service, even after a rename. */
  readonly token: string;
  readonly opening: Opening;
  readonly work: Set<{ readonly kind: Work }>;
  isStarted: boolean;
  isStopped: boolean;
  /** Whether the process has lost the lease. */
  isLost: boolean;
  /** Whether the process started to stop before this opening was complete. */
  isAbandoned: boolean;
}

/** Watches all incarnations of one process and collects violations. */
export class Witness {
  readonly violations: string[] = [];
  readonly #incarnations: Incarnation[] = [];
  #isLost = false;
  #phase: 'running' | 'stopping' | 'stopped' | 'closed' = 'running';
  /** Probes that reached the store. */
  readonly #reached = new Set<string>();

  born(opening: Opening): Incarnation {
    const { name, token } = opening.settings;
    const incarnation: Incarnation = {
      number: this.#incarnations.length,
      name,
      token: 'literal' in token ? token.literal.reveal() : '',
      opening,
      work: new Set(),
      isStarted: false,
      isStopped: false,
      isLost: this.#isLost,
      isAbandoned: this.#phase !== 'running',
    };
    this.#incarnations.push(incarnation);
    for (const other of this.#siblings(incarnation)) {
      // An incarnation that never started needs no stop.
      const isOver = (other.isStopped || !other.isStarted) && other.work.size === 0;
      if (!isOver) this.#report(`${label(incarnation)} opens before ${label(other)} ended`);
    }
    void this.expectOthersRevoked();
    return incarnation;
  }

  started(incarnation: Incarnation): void {
    incarnation.isStarted = true;
    const violation = this.#violation(incarnation, 'start');
    if (violation) this.#report(violation);
  }

  /** Runs `work` and records it until it ends. */
  async during<T>(incarnation: Incarnation, kind: Work, work: () => Promise<T>): Promise<T> {
    const violation = kind === 'lingering request' ? undefined : this.#violation(incarnation, kind);
    const own = { kind };
    incarnation.work.add(own);
    try {
      const result = await work();
      // Rejected commits are allowed.
      if (violation && kind === 'commit') this.#report(violation);
      return result;
    } finally {
      if (violation && kind !== 'commit') this.#report(violation);
      incarnation.work.delete(own);
    }
  }

  notified(account: string): void {
    if (this.#phase === 'closed') this.#report(`notified about ${account} after the end`);
    if (this.#isLost) this.#report(`notified about ${account} after the lease was lost`);
  }

  /** Records the loss of the lease. Call it after the supervisor has been informed of the loss. */
  async lost(): Promise<void> {
    this.#isLost = true;
    for (const each of this.#incarnations) each.isLost = true;
    await settle();
    for (const each of this.#incarnations) {
      if ([...each.work].some(({ kind }) => kind === 'request')) this.#report(`${label(each)} requests after the loss`);
      if (!(await this.#isRevoked(each))) this.#report(`${label(each)} is not revoked after the loss`);
    }
  }

  phase(phase: 'stopping' | 'stopped' | 'closed'): void {
    this.#phase = phase;
    for (const each of this.#incarnations) each.isAbandoned ||= [...each.work].some(({ kind }) => kind === 'open');
  }

  /** Records that a probe has reached the store. */
  reached(probe: string): void {
    this.#reached.add(probe);
  }

  #violation(incarnation: Incarnation, kind: Work): string | undefined {
    const what = `${label(incarnation)}: ${kind}`;
    if (this.#phase === 'closed' || (this.#phase === 'stopped' && kind !== 'commit')) return `${what} after the end`;
    // An opening in progress may still read after it was revoked.
    const isRevoked = incarnation.opening.deps.leadership?.remaining() === 0;
    if (incarnation.isAbandoned && !(kind === 'open' && isRevoked)) return `${what} after the stop began`;
    if (incarnation.isLost) return `${what} after the lease was lost`;
    for (const other of this.#siblings(incarnation)) {
      if (other.number > incarnation.number) return `${what} after ${label(other)} was opened`;
      if (other.work.size > 0) return `${what} during a ${[...other.work][0]?.kind} of ${label(other)}`;
    }
    return undefined;
  }

  #siblings({ number, token }: Incarnation): Incarnation[] {
    return this.#incarnations.filter(each => each.token === token && each.number !== number);
  }

  /** Checks that all incarnations except the newest of each account are revoked. */
  async expectOthersRevoked(): Promise<void> {
    for (const each of this.#incarnations) {
      const isNewest = !this.#siblings(each).some(({ number }) => number > each.number);
      if (!isNewest && !(await this.#isRevoked(each))) this.#report(`${label(each)} is not revoked`);
    }
  }

  /** Returns whether requests and commits are both impossible, even if the database would accept them. */
  async #isRevoked({ number, name, opening: { deps } }: Incarnation): Promise<boolean> {
    const probe = `${PROBE}${number}`;
    this.#reached.delete(probe);
    await deps.store.commit(name, [{ key: probe, value: '' }]).catch(() => undefined);
    const mayRequest = (deps.leadership?.remaining() ?? 1) > 0 || (await deps.leadership?.confirm());
    return !this.#reached.has(probe) && !mayRequest;
  }

  #report(violation: string): void {
    if (!this.violations.includes(violation)) this.violations.push(violation);
  }
}

const label = ({ name, number }: Incarnation) => `${name}#${number}`;
/** Key prefix of the rows that the witness tries to commit. */
export const PROBE = 'probe/';
