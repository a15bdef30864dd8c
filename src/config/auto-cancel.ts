import { z } from 'zod';
import { actingOptions, actingRule } from '../auto-cancel/options.ts';
import { checkEvidence, judgingRule } from '../auto-cancel/rule-options.ts';
import type { Known, Tell } from './faults.ts';
import type { Config } from './schema.ts';

const rule = actingRule.safeExtend(judgingRule.shape).superRefine((rule, context) => {
  checkEvidence(rule, context);
  const { mode, expires, evidence, acceptUnverified } = rule;
  if (mode !== 'enforce') return;
  if (expires === null) {
    context.addIssue({ code: 'custom', path: ['expires'], message: 'is required with mode: enforce' });
  }
  if (evidence === 'blind' && !acceptUnverified) {
    context.addIssue({
      code: 'custom',
      path: ['acceptUnverified'],
      message:
        'must be true with mode: enforce and evidence: blind: the service does not tell whether a callback is in progress, or was run again by hand',
    });
  }
});

export const autoCancelRules = z.array(rule).superRefine((rules, context) => {
  const names = new Set<string>();
  for (const [index, { name }] of rules.entries()) {
    if (names.has(name)) {
      context.addIssue({ code: 'custom', path: [index, 'name'], message: `must be unique; ${name} is there already` });
    }
    names.add(name);
  }
});

/** The section `autoCancel`: what judging and what acting need. */
export const autoCancelOptions = actingOptions.safeExtend({
  rules: autoCancelRules
    .default([])
    .describe(
      'What is stuck. Of several rules that match a callback the one with the most cautious mode counts, and of two such the first.',
    ),
});

export type AutoCancel = z.output<typeof autoCancelOptions>;
type Rule = AutoCancel['rules'][number];

/** Whether a rule may ever send something for an account. */
function mayAct({ mode }: Pick<AutoCancel, 'mode'>, rule: Rule, account: string): boolean {
  return mode === 'enforce' && rule.mode !== 'plan' && (rule.accounts?.includes(account) ?? true);
}

/** Whether anything may ever be sent for an account: its token for acting is needed only then. */
export function accountMayAct({ autoCancel }: { readonly autoCancel: AutoCancel }, account: string): boolean {
  return autoCancel.rules.some(rule => mayAct(autoCancel, rule, account));
}

/** What the rules ask of the rest of the configuration and it does not give. */
export function checkAutoCancel({ autoCancel, store, accounts }: Config, known: Known, tell: Tell): void {
  const names = (path: readonly PropertyKey[], used: readonly string[], known: readonly string[], what: string) => {
    for (const [number, name] of used.entries()) {
      if (known.includes(name)) continue;
      const there = known.length === 0 ? '' : `; there are: ${known.join(', ')}`;
      tell.fault([...path, number], `there is no ${what} called ${name}${there}`);
    }
  };
  names(['autoCancel', 'pauseWhileAlerts'], autoCancel.pauseWhileAlerts, known.alerts, 'alert');
  for (const [index, rule] of autoCancel.rules.entries()) {
    const path = ['autoCancel', 'rules', index];
    names([...path, 'accounts'], rule.accounts ?? [], known.accounts, 'account');
    names([...path, 'notify'], rule.notify, known.notifiers, 'notifier');
    const own = accounts.filter(({ name }) => rule.accounts?.includes(name) ?? true);
    const without = (collector: string) => own.find(({ collect }) => !collect[collector]?.enabled)?.name;
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
    if (store.kind === 'memory' && own.some(({ name }) => mayAct(autoCancel, rule, name))) {
      const message = 'needs a store that lasts: what was sent must be known after a restart, and store.kind is memory';
      tell.fault([...path, 'mode'], message);
    }
  }
}
