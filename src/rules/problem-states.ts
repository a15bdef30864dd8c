import { alertingFamilies } from '../metrics/alerting.ts';
import type { Sample, Source } from '../metrics/family.ts';
import { ENDED_FOR } from '../metrics/thresholds.ts';
import type { CheckSeverity } from '../model/check-kind.ts';
import type { Alert, Evaluated } from './account-alerts.ts';

/** State of a problem. Page, API, report and notifications show `startsAt` (ms since the Unix epoch) as its start. */
export type ProblemState = Readonly<ReturnType<typeof toProblemState>[number]>;

/** Returns the state of a pending or firing built-in alert; nothing for other alerts. */
export function toProblemState({ kind, labels, annotations, state }: Alert) {
  if (kind === undefined || state.phase === 'resolved') return [];
  const { severity, subject = null } = labels;
  const isFiring = state.phase === 'firing';
  // The last evaluation no longer found the problem: only `keepFiringFor` keeps the alert firing.
  const isClear = isFiring && state.clearFor !== undefined && state.seenAt !== undefined;
  const { summary: text = '' } = annotations;
  return [{ kind, severity: severity as CheckSeverity, subject, startsAt: state.startsAt, text, isFiring, isClear }];
}

/** Returns the source of `delivery_problem`. `account`: undefined for the agent. */
export function problemsSource(account: string | undefined, current: () => Evaluated, now: () => number): Source {
  /** Series and the time at which each last had the value 1. */
  const known = new Map<string, { readonly labels: Sample['labels']; readonly at: number }>();

  function samples(): readonly Sample[] {
    const at = now();
    for (const [fingerprint, { kind, labels, state }] of current().alerts) {
      if (kind === undefined || state.phase === 'pending') continue;
      const { severity, subject } = labels;
      const isFiring = state.phase === 'firing';
      const last = isFiring ? at : state.endsAt;
      // After a restart, only stored states show recently ended alerts. Keep the later time: the clock may have been set back.
      if (isFiring || (known.get(fingerprint)?.at ?? 0) < last)
        known.set(fingerprint, { labels: { kind, severity, subject }, at: last });
    }
    for (const [fingerprint, { at: last }] of known) if (Math.abs(at - last) >= ENDED_FOR) known.delete(fingerprint);
    const isFiring = (fingerprint: string) => current().alerts.get(fingerprint)?.state.phase === 'firing';
    return [...known].map(([fingerprint, { labels }]) => ({ labels, value: Number(isFiring(fingerprint)) }));
  }

  return {
    ...(account === undefined ? {} : { account }),
    families: [alertingFamilies.problem],
    revision: () => JSON.stringify(samples()),
    samples: () => new Map([[alertingFamilies.problem.name, samples()]]),
  };
}
