import { actingRules } from '../auto-cancel/options.ts';
import { checkNames, type DeclaredNames, type Reporter } from './errors.ts';
import type { Config } from './schema.ts';

/** Checks auto-cancel rules against the rest of the configuration. */
export function checkAutoCancel(
  { autoCancel, store, accounts }: Config,
  declared: DeclaredNames,
  report: Reporter,
): void {
  checkNames('alert', autoCancel.pauseWhileAlerts, declared.alerts, ['autoCancel', 'pauseWhileAlerts'], report);
  for (const [index, rule] of autoCancel.rules.entries()) {
    const path = ['autoCancel', 'rules', index];
    checkNames('account', rule.accounts ?? [], declared.accounts, [...path, 'accounts'], report);
    checkNames('notifier', rule.notify, declared.notifiers, [...path, 'notify'], report);
    const own = accounts.filter(({ name }) => rule.accounts?.includes(name) ?? true);
    const without = (collector: 'dlq' | 'events') => own.find(({ collect }) => !collect[collector].enabled)?.name;
    const withoutDlq = without('dlq');
    if (withoutDlq !== undefined) {
      const message = `needs collect.dlq, which is not enabled for the account ${withoutDlq}`;
      report.error(rule.accounts === null ? path : [...path, 'accounts'], message);
    }
    const withoutEvents = rule.stuckWhen.idleFor === undefined ? undefined : without('events');
    if (withoutEvents !== undefined) {
      const message = `needs collect.events, which is not enabled for the account ${withoutEvents}`;
      report.error([...path, 'stuckWhen', 'idleFor'], message);
    }
    if (store.kind === 'memory' && own.some(({ name }) => actingRules(autoCancel, name).includes(rule))) {
      const message = 'needs store.kind: sqlite or postgres: its cancels must survive a restart';
      report.error([...path, 'mode'], message);
    }
  }
}
