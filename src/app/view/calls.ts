import type { AccountView } from '../../http/api/account.ts';
import { ownFamilies } from '../../metrics/own.ts';
import type { Shown } from './samples.ts';
import { orNull, sum } from './values.ts';

/** What reading the service costs. `budgetPerDay`: requests, as configured. */
export function calls(shown: Shown, budgetPerDay: number): AccountView['calls'] {
  const tokenRejected = shown.one(ownFamilies.tokenRejected);
  return {
    requests: shown
      .of(ownFamilies.requests)
      .filter(({ value }) => value > 0)
      .map(({ labels: { endpoint = '', outcome = '' }, value }) => ({ endpoint, outcome, count: value })),
    bytes: sum(shown.of(ownFamilies.responseBytes).map(({ value }) => value)),
    waitedSeconds: shown.one(ownFamilies.budgetWait) ?? 0,
    budgetRemaining: orNull(shown.one(ownFamilies.budgetRemaining)),
    budgetPerDay,
    tokenRejected: tokenRejected === undefined ? null : tokenRejected === 1,
  };
}
