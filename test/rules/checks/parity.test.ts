import { describe, expect, it } from 'vitest';
import { alerts as shippedAlerts } from '../../../mixin/rules.ts';
import { DIFFERENCES, NOT_BUILT_IN, NOT_SHIPPED, timesOf } from '../../../scripts/alert-table.ts';
import { AGENT_CHECKS } from '../../../src/rules/checks/agent.ts';
import { BUILTIN_ALERTS, builtinAlert } from '../../../src/rules/checks/alerts.ts';
import { ACCOUNT_CHECKS } from '../../../src/rules/checks/run.ts';

const shipped = new Map(shippedAlerts.map(alert => [alert.name, alert]));
const builtin: readonly string[] = BUILTIN_ALERTS;

describe('alert parity', () => {
  it('each built-in alert has a shipped counterpart and vice versa, unless an exception is listed', () => {
    const notShipped = builtin.filter(name => !shipped.has(name as `Delivery${string}`));
    const notBuiltIn = [...shipped.keys()].filter(name => !builtin.includes(name));
    expect(notShipped.sort(), 'ship these alerts, or give reasons in NOT_SHIPPED of scripts/alert-table.ts').toEqual(
      Object.keys(NOT_SHIPPED).sort(),
    );
    expect(
      notBuiltIn.sort(),
      'add checks for these alerts, or reasons to NOT_BUILT_IN in scripts/alert-table.ts',
    ).toEqual(Object.keys(NOT_BUILT_IN).sort());
  });

  it('built-in and shipped alerts have the same severity', () => {
    const others = BUILTIN_ALERTS.filter(
      name => shipped.has(name) && shipped.get(name)?.severity !== builtinAlert(name).severity,
    );
    expect(others).toEqual([]);
  });

  it('built-in alerts are sent by default unless the shipped alert is in the extended set', () => {
    const others = BUILTIN_ALERTS.filter(name => {
      const set = shipped.get(name)?.set;
      return set !== undefined && (set === 'extended') !== (builtinAlert(name).isExtended === true);
    });
    expect(others).toEqual([]);
  });

  it('built-in and shipped alerts have the same durations, unless an exception is listed', () => {
    const others = BUILTIN_ALERTS.filter(name => {
      const alert = shipped.get(name);
      if (!alert) return false;
      const { for: pending, keepFiringFor } = builtinAlert(name);
      const times = timesOf(alert);
      return times.for !== pending || times.keepFiringFor !== keepFiringFor;
    });
    const unexplained = others.filter(name => DIFFERENCES[name] === undefined);
    expect(unexplained, 'use the shipped durations, or give reasons in DIFFERENCES of scripts/alert-table.ts').toEqual(
      [],
    );
  });

  it('built-in and shipped alerts use the same label for their subject', () => {
    const ofSubject = (name: (typeof BUILTIN_ALERTS)[number]) => builtinAlert(name).label;
    const others = BUILTIN_ALERTS.filter(name => {
      const own = (shipped.get(name)?.labels ?? []).filter(label => label !== 'instance' && label !== 'collector');
      return own.some(label => label !== ofSubject(name));
    });
    expect(others).toEqual([]);
  });

  it('each built-in alert lists exactly the checks that refer to it', () => {
    const all = [...ACCOUNT_CHECKS, ...AGENT_CHECKS];
    for (const name of BUILTIN_ALERTS) {
      const kinds = new Set(all.filter(({ alert }) => alert === name).map(({ kind }) => kind));
      expect([...kinds].sort(), name).toEqual([...builtinAlert(name).kinds].sort());
    }
  });

  it('built-in alerts have the same scope as their checks, account or agent', () => {
    const ofAgent = new Set([...AGENT_CHECKS].map(({ alert }) => alert));
    expect(BUILTIN_ALERTS.filter(name => builtinAlert(name).isOfAgent === true)).toEqual(
      BUILTIN_ALERTS.filter(name => ofAgent.has(name)),
    );
  });
});
