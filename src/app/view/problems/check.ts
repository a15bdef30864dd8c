import type { AccountView } from '../../../http/api/account.ts';
import type { DataState, FromReplica, PROBLEM_KINDS, Problem } from '../../../http/api/parts.ts';
import type { Objectives } from '../../../metrics/objectives.ts';
import type { AccountMeter } from '../../../metrics/own.ts';
import type { Growth } from '../../../metrics/thresholds.ts';
import type { AccountHistory } from '../../../model/history.ts';
import type { AutoCancelNumbers } from '../../../model/journal.ts';
import type { ProblemLog } from '../problem-log.ts';
import type { Recent } from '../recent.ts';

/** What is shown of an account, as far as problems are judged on it. */
export type ShownAccount = Omit<AccountView, 'complete' | 'problems' | 'alerts' | 'state' | keyof FromReplica>;

/** What is known of an account at one moment. */
export interface Moment {
  readonly view: ShownAccount;
  /** Milliseconds since the Unix epoch. */
  readonly now: number;
  readonly objectives: Pick<Objectives, 'window' | 'dlqMaxAge'>;
  readonly meter: Pick<AccountMeter, 'requests' | 'rowsRejected' | 'listsMissing'>;
  /** Undefined while auto-cancel is off. */
  readonly autoCancel: AutoCancelNumbers | undefined;
  readonly recent: AccountHistory['recent'];
  readonly changes: Recent;
  readonly firstSeen: ProblemLog['firstSeen'];
}

/** A problem as a check finds it. */
export interface Found {
  /** Where there can be several of a kind. */
  readonly subject?: string;
  /** Milliseconds since the Unix epoch; left out where the agent only knows when it first saw it. */
  readonly since?: number | undefined;
  /** Where it is less bad than its kind can be. */
  readonly severity?: 'warning' | 'info';
  /** One sentence with the numbers. */
  readonly text: string;
}

interface Described {
  readonly kind: (typeof PROBLEM_KINDS)[number];
  /** Critical where the shipped alert of this runbook is. */
  readonly severity: Problem['severity'];
  /** A file of docs/runbooks/, without its ending. */
  readonly runbook: string | null;
  /** Markdown, after "it is said when". */
  readonly when: string;
}

/** One possible problem. Pure. A check does not evaluate missing data; only checks of staleness evaluate stale data. */
export type Check<M> = Described & { check(moment: M): Found | readonly Found[] };
export type AccountCheck = Check<Moment>;

/** Milliseconds. */
export const MINUTE = 60_000;

/** Whether data may be judged: what is stale may have changed, and what is withdrawn is not known. */
export const isCurrent = (data: DataState) => data === 'fresh' || data === 'partial';

/** A time of the API in milliseconds since the Unix epoch. */
export const msOf = (iso: string | null) => (iso === null ? undefined : Date.parse(iso));

/** Whether a number has grown from one of before by that much, or by a part of it. */
export const isMoreBy = ({ share, fewest, many }: Growth, now: number, before: number, part = 1) =>
  now - before > part * Math.min(Math.max(share * before, fewest), many);

/** How long the agent has seen a problem already, in milliseconds; 0: not yet. */
export const seenFor = ({ firstSeen, now }: Moment, kind: Described['kind'], subject: string | null) =>
  now - (firstSeen({ kind, subject }) ?? now);

/** Of the threshold of a problem that was said in the last five minutes: one near its threshold must not come and go. */
const EASED = 0.7;

/** The part of its threshold from which a problem is said. */
export const easing = ({ firstSeen }: Moment, kind: Described['kind']) =>
  firstSeen({ kind, subject: null }) === undefined ? 1 : EASED;
