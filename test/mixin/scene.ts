import { alerts } from '../../mixin/rules.ts';
import { collectors } from '../../src/collectors/index.ts';
import type { AlertCase, Input } from './cases/case.ts';
import { allRounds, type Darkness, health, type Round, unseen } from './course.ts';
import { knownSeries } from './known-series.ts';
import { namesInRules, type RuleTest } from './promtool.ts';

/** Whether agents expose a series. Used to omit unknown series, for which `replica` would throw. */
const isKnown = (series: string) => knownSeries.has(series.replace(/\{.*/, ''));

/** Time that tests wait, in addition to an alert's windows, to cover its keep_firing_for (minutes). */
export const KEPT = 20;
export const HOUR = 60;
/** Sampling interval of tests with long blindness (minutes). It must be shorter than the lookback of Prometheus, five minutes. */
export const COARSE = 4;
export const coarse = (minute: number) => Math.ceil(minute / COARSE) * COARSE;

/** Parts that all generated tests of an alert have in common. */
export interface Scene {
  readonly each: AlertCase;
  /** Whether the alert depends on a collector. */
  readonly canBeBlind: boolean;
  /** Returns the input together with the health metrics that are exposed if reads fail during `darkness`. */
  withHealth(input: Input, darkness?: Darkness): Input;
}

export const alertNamed = (name: string) => {
  const alert = alerts.find(alert => alert.name === name);
  if (!alert) throw new Error(`there is no alert ${name}`);
  return alert;
};

/** Returns the rounds of the collectors whose families the alert's rules use. */
function roundsFor(alert: string): readonly Round[] {
  const names = namesInRules([alert]);
  const used = collectors.filter(({ families }) => Object.values(families).some(({ name }) => names.has(name)));
  return used.length === 0
    ? allRounds
    : allRounds.filter(({ collector }) => used.some(({ name }) => name === collector));
}

export function sceneOf(each: AlertCase): Scene {
  const { collector } = alertNamed(each.alert);
  const rounds = roundsFor(each.alert);
  return {
    each,
    canBeBlind: collector !== undefined,
    withHealth: (input, darkness) => ({
      ...Object.fromEntries(Object.entries(health(rounds, darkness)).filter(([series]) => isKnown(series))),
      ...(darkness ? unseen(input, darkness) : input),
    }),
  };
}

/** Creates the rule tests for one variant of a scene. */
export type Generated = (scene: Scene) => readonly RuleTest[];

/** Instance of the second replica. */
export const two = 'two:10922';
