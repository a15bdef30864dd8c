import type { Objectives } from '../../metrics/objectives.ts';
import type { AccountMeter } from '../../metrics/own.ts';
import type { Growth } from '../../metrics/thresholds.ts';
import type { AccountHistory } from '../../model/history.ts';
import type { AutoCancelNumbers } from '../../model/journal.ts';
import type { AccountView } from '../api/account.ts';
import type { FromReplica, Problem } from '../api/parts.ts';
import type { ProblemLog } from '../problem-log.ts';
import type { Recent } from '../recent.ts';

/** The part of an account's view that problems depend on. */
export type ShownAccount = Omit<AccountView, 'complete' | 'problems' | 'alerts' | 'state' | keyof FromReplica>;

export interface Moment {
  readonly view: ShownAccount;
  /** Milliseconds since the Unix epoch. */
  readonly now: number;
  readonly objectives: Pick<Objectives, 'window' | 'dlqMaxAge'>;
  readonly meter: Pick<AccountMeter, 'requests' | 'rowsRejected' | 'listsMissing'>;
  readonly autoCancel: AutoCancelNumbers | undefined;
  readonly recent: AccountHistory['recent'];
  readonly changes: Recent;
  readonly firstSeen: ProblemLog['firstSeen'];
}

export interface Found {
  /** Set if there can be several problems of this kind. */
  readonly subject?: string;
  /** Start, milliseconds since the Unix epoch. Default: the time of the first detection. */
  readonly since?: number | undefined;
  /** Default: that of the check. */
  readonly severity?: Problem['severity'];
  readonly text: string;
}

/** The findings of a check; only its sentence for a problem without other properties. */
type Result = string | Found | readonly Found[];

/** One possible problem. Pure. A check does not evaluate missing data; only checks of staleness evaluate stale data. */
export interface Check<M> {
  readonly kind: Problem['kind'];
  /** That of the shipped alert with this runbook. */
  readonly severity: Problem['severity'];
  /** File in docs/runbooks/ without `.md`. */
  readonly runbook: string | null;
  /** Condition for docs/problems.md, as Markdown. */
  readonly when: string;
  check(moment: M): Result;
}
export type AccountCheck = Check<Moment>;

export const defineCheck = <M>(
  kind: Problem['kind'],
  severity: Problem['severity'],
  runbook: string | null,
  { when, check }: Pick<Check<M>, 'when' | 'check'>,
): Check<M> => ({ kind, severity, runbook, when, check });

export const MINUTE = 60_000;

/** A check of a section that is skipped if the data may have changed since it was read. */
export const ofCurrent =
  <S extends 'deadLetters' | 'events' | 'flowControl'>(
    section: S,
    check: (moment: Moment, shown: ShownAccount[S]) => Result,
  ) =>
  (moment: Moment): Result => {
    const shown = moment.view[section];
    return shown.data === 'fresh' || shown.data === 'partial' ? check(moment, shown) : [];
  };

export const msOf = (iso: string | null) => (iso === null ? undefined : Date.parse(iso));

/** Interval of a round; 0 if its collector is disabled. */
export const everySeconds = ({ rounds }: ShownAccount, collector: string, name: string) =>
  rounds.find(each => each.collector === collector && each.round === name)?.everySeconds ?? 0;

/** Whether a number has grown by the threshold, or by a part of it. */
export const isMoreBy = ({ share, fewest, many }: Growth, now: number, before: number, part = 1) =>
  now - before > part * Math.min(Math.max(share * before, fewest), many);

/** Time since the first detection of a problem (ms); 0 for a new problem. */
export const seenFor = ({ firstSeen, now }: Moment, kind: Problem['kind'], subject: string | null) =>
  now - (firstSeen({ kind, subject }) ?? now);

/** Factor on the threshold of a problem that was reported in the last five minutes, so that it does not flap. */
const EASED = 0.7;

/** The part of its threshold at which a problem is reported. */
export const easing = ({ firstSeen }: Moment, kind: Problem['kind']) =>
  firstSeen({ kind, subject: null }) === undefined ? 1 : EASED;
