import { MINUTE } from '../kit/duration.ts';
import { alertingFamilies } from '../metrics/alerting.ts';
import type { Sample, Source } from '../metrics/family.ts';
import type { CheckKind, CheckSeverity } from '../model/check-kind.ts';
import type { Alert, Evaluated } from './alert.ts';
import { isAtLeast } from './checks/check.ts';

/** State of a problem. Page, API, report and notifications show `startsAt` as its start. */
export interface ProblemState {
  readonly alert: string;
  readonly kind: CheckKind;
  readonly severity: CheckSeverity;
  readonly subject: string | null;
  /** Milliseconds since the Unix epoch. */
  readonly startsAt: number;
  /** Text of the last finding. */
  readonly text: string;
  readonly isFiring: boolean;
  /** Whether the last evaluation found nothing: the alert only keeps firing. */
  readonly isClear: boolean;
}

/** Returns the state of a pending or firing built-in alert; nothing for other alerts. */
export function toProblemState({ rule: alert, problem, labels, annotations, state }: Alert): readonly ProblemState[] {
  if (!problem || state.phase === 'resolved') return [];
  const severity = labels.severity as CheckSeverity;
  const { kind, subject = null } = problem;
  const isFiring = state.phase === 'firing';
  const isClear = isFiring && state.clearFor !== undefined && state.seenAt !== undefined;
  return [
    { alert, kind, severity, subject, startsAt: state.startsAt, text: annotations.summary ?? '', isFiring, isClear },
  ];
}

/** Time for which an ended problem is exposed as 0 (ms), so that `last_over_time` contains the end. */
const ENDED_FOR = 10 * MINUTE;

/** Returns the source of `delivery_problem`. `account`: undefined for the agent. */
export function problemsSource(account: string | undefined, current: () => Evaluated, now: () => number): Source {
  /** Series and the time at which each last had the value 1. */
  const known = new Map<string, { readonly labels: Sample['labels']; readonly at: number }>();

  function samples(): readonly Sample[] {
    const [at, alerts] = [now(), [...current().alerts.values()]];
    const firing = alerts.flatMap(toProblemState).filter(({ isFiring }) => isFiring);
    const highest = firing.filter(({ kind, subject, severity }) =>
      firing.every(other => other.kind !== kind || other.subject !== subject || isAtLeast(severity, other.severity)),
    );
    const note = (kind: CheckKind, severity: string | undefined, subject: string | undefined, time: number) => {
      const labels = { kind, severity, subject };
      const key = JSON.stringify(labels);
      if ((known.get(key)?.at ?? Number.NEGATIVE_INFINITY) < time) known.set(key, { labels, at: time });
      return key;
    };
    // After a restart, alerts that have just ended are only in their stored states.
    for (const { problem, labels, state } of alerts) {
      if (problem && state.phase === 'resolved') note(problem.kind, labels.severity, problem.subject, state.endsAt);
    }
    const on = new Set(highest.map(({ kind, severity, subject }) => note(kind, severity, subject ?? undefined, at)));
    for (const [key, { at: last }] of known) if (!on.has(key) && Math.abs(at - last) >= ENDED_FOR) known.delete(key);
    return [...known].map(([key, { labels }]) => ({ labels, value: Number(on.has(key)) }));
  }

  return {
    ...(account === undefined ? {} : { account }),
    families: [alertingFamilies.problem],
    revision: () => JSON.stringify(samples()),
    samples: () => new Map([[alertingFamilies.problem.name, samples()]]),
  };
}
