import { describe, expect, it } from 'vitest';
import type { CheckKind, CheckSeverity } from '../../src/model/check-kind.ts';
import type { Alert } from '../../src/rules/account-alerts.ts';
import { problemsSource } from '../../src/rules/problem-states.ts';
import type { AlertState } from '../../src/rules/state.ts';

const MINUTE = 60_000;
const START = Date.UTC(2026, 5, 1);

type Given = readonly [kind: CheckKind, severity: CheckSeverity, subject: string | undefined, state: AlertState];

const firing: AlertState = { phase: 'firing', startsAt: START, firedAt: START };

const alertOf = ([kind, severity, subject, state]: Given): Alert => ({
  rule: 'DeliveryAlert',
  kind,
  labels: { kind, severity, ...(subject === undefined ? {} : { subject }) },
  annotations: { summary: 'It is bad.' },
  value: 1,
  state,
});

/** Creates a source for an account. `at` returns its lines some minutes after the start, with these alerts. */
function scene(account: string | null = 'acme') {
  let [now, alerts]: [number, readonly Alert[]] = [START, []];
  const evaluated = () => ({
    alerts: new Map(alerts.map(alert => [JSON.stringify(alert.labels), alert])),
    unknown: new Set<string>(),
  });
  const source = problemsSource(account ?? undefined, evaluated, () => now);
  return {
    source,
    at(minutes: number, ...given: readonly Given[]) {
      now = START + minutes * MINUTE;
      alerts = given.map(alertOf);
      return source
        .samples()
        .get('delivery_problem')
        ?.map(({ labels: { kind, severity, subject }, value }) => `${kind} ${severity} ${subject ?? '-'} ${value}`);
    },
  };
}

describe('delivery_problem', () => {
  it('delivery_problem is absent for a pending problem, 1 for a firing one, and 0 for ten minutes after the problem has ended', () => {
    const { at } = scene();
    const pending: AlertState = { phase: 'pending', startsAt: START, heldFor: 0 };
    const resolved: AlertState = { phase: 'resolved', startsAt: START, endsAt: START + 3 * MINUTE };
    expect(at(0, ['dlq_growing', 'warning', undefined, pending])).toEqual([]);
    expect(at(2, ['dlq_growing', 'warning', undefined, firing])).toEqual(['dlq_growing warning - 1']);
    expect(at(3, ['dlq_growing', 'warning', undefined, resolved])).toEqual(['dlq_growing warning - 0']);
    // It is pending again.
    expect(at(12, ['dlq_growing', 'warning', undefined, pending])).toEqual(['dlq_growing warning - 0']);
    expect(at(14)).toEqual([]);
  });

  it('delivery_problem is 0 for a problem that ended before a restart, until ten minutes after its end', () => {
    const resolved: AlertState = { phase: 'resolved', startsAt: START, endsAt: START + MINUTE };
    const given: Given = ['token_rejected', 'critical', undefined, resolved];
    expect(scene().at(10, given)).toEqual(['token_rejected critical - 0']);
    expect(scene().at(12, given)).toEqual([]);
  });

  it('delivery_problem is 1 for a firing problem and 0 for an ended one, even if the clock was set back', () => {
    const { at } = scene();
    const resolved: AlertState = { phase: 'resolved', startsAt: START, endsAt: START + 2 * MINUTE };
    expect(at(60, ['dlq_growing', 'warning', undefined, firing])).toEqual(['dlq_growing warning - 1']);
    expect(at(0, ['dlq_growing', 'warning', undefined, firing])).toEqual(['dlq_growing warning - 1']);
    expect(at(1, ['dlq_growing', 'warning', undefined, firing])).toEqual(['dlq_growing warning - 1']);
    expect(at(2, ['dlq_growing', 'warning', undefined, resolved])).toEqual(['dlq_growing warning - 0']);
    expect(at(12)).toEqual([]);
  });

  it('subjects have their own series, and agent-wide problems have no account', () => {
    const { at, source } = scene(null);
    const given: Given[] = ['ops', 'pager'].map(name => ['notifications_failing', 'critical', name, firing]);
    expect(at(0, ...given)).toEqual(['notifications_failing critical ops 1', 'notifications_failing critical pager 1']);
    expect('account' in source).toBe(false);
    expect(scene().source.account).toBe('acme');
  });

  it('alerts of users’ rules have no series in delivery_problem', () => {
    const { kind: _, ...alert } = alertOf(['dlq_old', 'warning', undefined, firing]);
    const evaluated = { alerts: new Map([['a', alert]]), unknown: new Set<string>() };
    expect(
      problemsSource(
        'acme',
        () => evaluated,
        () => START,
      )
        .samples()
        .get('delivery_problem'),
    ).toEqual([]);
  });
});
