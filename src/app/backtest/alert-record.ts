import type { AccountAlerts } from '../../alerts/account-alerts.ts';
import type { Evaluated } from '../../alerts/alert.ts';
import { createFirings, type Firing } from './firings.ts';

/** Alerts of an account as a backtest goes through them: nothing is stored, and nothing is sent. */
export interface AlertRecord extends Pick<AccountAlerts, 'account' | 'current' | 'update'> {
  /** What fired of a rule, as far as it is kept. */
  firingsOf(rule: string): readonly Firing[];
  /** How many firings of a rule are not kept. */
  leftOutOf(rule: string): number;
  /** At the last evaluation: firing, or of unknown state, by rule. */
  states(): ReadonlyMap<string, 'firing' | 'unknown'>;
}

/** Labels that every alert of a rule has. */
const COMMON = new Set(['alertname', 'account']);

export function createAlertRecord(account: string): AlertRecord {
  let current: Evaluated = { alerts: new Map(), unknown: new Set(), beyondCap: new Map() };
  const firings = new Map<string, ReturnType<typeof createFirings>>();

  function firingsOf(rule: string) {
    const known = firings.get(rule) ?? createFirings();
    firings.set(rule, known);
    return known;
  }

  return {
    account,
    current: () => current,
    async update(next) {
      for (const [fingerprint, { rule, labels, value, state }] of next.alerts) {
        const own = Object.fromEntries(Object.entries(labels).filter(([label]) => !COMMON.has(label)));
        firingsOf(rule).note(fingerprint, state, value, own);
      }
      for (const [fingerprint, { rule }] of current.alerts) {
        if (!next.alerts.has(fingerprint)) firingsOf(rule).note(fingerprint, undefined, undefined);
      }
      current = next;
    },
    leftOutOf: rule => firings.get(rule)?.leftOut() ?? 0,
    firingsOf: rule => firings.get(rule)?.all() ?? [],
    states: () =>
      new Map<string, 'firing' | 'unknown'>([
        ...[...current.unknown].map(rule => [rule, 'unknown'] as const),
        ...[...current.alerts.values()].flatMap(({ rule, state }) =>
          state.phase === 'firing' ? [[rule, 'firing'] as const] : [],
        ),
      ]),
  };
}
