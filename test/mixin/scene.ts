import { alerts } from '../../mixin/rules.ts';
import { collectors } from '../../src/collectors/index.ts';
import type { AlertCase, Input } from './cases/case.ts';
import { allRounds, type Darkness, health, type Round, unseen } from './course.ts';
import { knownSeries } from './known-series.ts';
import { namesInRules, type RuleTest } from './promtool.ts';

/** Health metrics of a configuration without objectives would be unknown series. */
const isKnown = (series: string) => knownSeries.has(series.replace(/\{.*/, ''));

/** Upper bound of keep_firing_for of all alerts (minutes). */
export const KEPT = 20;
export const HOUR = 60;
/** Sampling interval for tests of long blindness (minutes): less than Prometheus's look-back of five. */
export const COARSE = 4;
export const coarse = (minute: number) => Math.ceil(minute / COARSE) * COARSE;

/** Common parts of the generated tests of one alert. */
export interface Scene {
  readonly each: AlertCase;
  /** Whether the alert depends on data of the service. */
  readonly canBeBlind: boolean;
  /** Series and health metrics of an agent with this input and optional blindness. */
  withHealth(input: Input, darkness?: Darkness): Input;
}

export const alertNamed = (name: string) => {
  const alert = alerts.find(alert => alert.name === name);
  if (!alert) throw new Error(`there is no alert ${name}`);
  return alert;
};

/** Rounds of the collectors with families used in the alert's rules. */
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

/** Generates the tests of one variant. */
export type Generated = (scene: Scene) => readonly RuleTest[];

/** Instance of the second replica. */
export const two = 'two:10922';
