import { alertGroups } from '../../mixin/rules.ts';
import { collectors } from '../../src/collectors/index.ts';
import type { AlertCase, Input } from './cases/case.ts';
import { allRounds, type Darkness, health, type Round, unseen } from './course.ts';
import { knownSeries } from './known-series.ts';
import { namesInRules, type RuleTest } from './promtool.ts';

/** Objectives and the like are shown only where the agent has such families. */
const isKnown = (series: string) => knownSeries.has(series.replace(/\{.*/, ''));

/** How long the longest alert goes on firing when it is no longer true, in minutes, and a little more. */
export const KEPT = 20;
export const HOUR = 60;
/** A day's blindness is sampled so seldom: less than the five minutes that Prometheus looks back. */
export const COARSE = 4;
export const coarse = (minute: number) => Math.ceil(minute / COARSE) * COARSE;

/** What the generated tests of one alert have in common. */
export interface Scene {
  readonly each: AlertCase;
  /** Whether it judges what the service says. */
  readonly canBeBlind: boolean;
  /** Series and health of an agent that sees this, and nothing for a while. */
  sees(input: Input, darkness?: Darkness): Input;
}

export const alertNamed = (name: string) => {
  const alert = alertGroups.flatMap(({ alerts }) => alerts).find(alert => alert.name === name);
  if (!alert) throw new Error(`there is no alert ${name}`);
  return alert;
};

/** Rounds that an alert may depend on: of the collectors whose families its rules name. */
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
    sees: (input, darkness) => ({
      ...Object.fromEntries(Object.entries(health(rounds, darkness)).filter(([series]) => isKnown(series))),
      ...(darkness ? unseen(input, darkness) : input),
    }),
  };
}

/** Makes tests of one variant. */
export type Generated = (scene: Scene) => readonly RuleTest[];

/** The other of two replicas. */
export const two = 'two:10922';
