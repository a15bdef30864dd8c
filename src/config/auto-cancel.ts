import { actingRules } from '../auto-cancel/options.ts';
import { checkNames, type Known, type Tell } from './faults.ts';
import type { Config } from './schema.ts';

/** Checks that the configuration has what the rules refer to. */
export function checkAutoCancel({ autoCancel, store, accounts }: Config, known: Known, tell: Tell): void {
  checkNames('alert', autoCancel.pauseWhileAlerts, known.alerts, ['autoCancel', 'pauseWhileAlerts'], tell);
  for (const [index, rule] of autoCancel.rules.entries()) {
    const path = ['autoCancel', 'rules', index];
    checkNames('account', rule.accounts ?? [], known.accounts, [...path, 'accounts'], tell);
    checkNames('notifier', rule.notify, known.notifiers, [...path, 'notify'], tell);
    const own = accounts.filter(({ name }) => rule.accounts?.includes(name) ?? true);
    const without = (collector: 'dlq' | 'events') => own.find(({ collect }) => !collect[collector].enabled)?.name;
    const blindfolded = without('dlq');
    if (blindfolded !== undefined) {
      const message = `needs collect.dlq, which is not enabled for the account ${blindfolded}`;
      tell.fault(rule.accounts === null ? path : [...path, 'accounts'], message);
    }
    const deaf = rule.stuckWhen.idleFor === undefined ? undefined : without('events');
    if (deaf !== undefined) {
      const message = `needs collect.events, which is not enabled for the account ${deaf}`;
      tell.fault([...path, 'stuckWhen', 'idleFor'], message);
    }
    if (store.kind === 'memory' && own.some(({ name }) => actingRules(autoCancel, name).includes(rule))) {
      const message = 'needs store.kind: sqlite or postgres: after a restart the agent must know what it sent';
      tell.fault([...path, 'mode'], message);
    }
  }
}
