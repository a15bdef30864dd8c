import { alerts } from '../../mixin/rules.ts';
import { type CourseOptions, runCourse } from '../support/course.ts';
import type { Input } from './cases/case.ts';
import { namesInRules, type Query, replica, testRules } from './promtool.ts';

const everyAlert = alerts.map(({ name }) => name);

/** Expects that exactly these alerts have fired up to `minute`, not counting alerts with severity info. */
const firedUntil = (minute: number, names: readonly string[]): Query => ({
  expr: `group by (alertname) (count_over_time(ALERTS{alertstate="firing",severity!="info"}[${minute}m]))`,
  minute,
  expected: names.map(name => ({ labels: `{alertname="${name}"}`, value: 1 })),
});

interface Watched extends Omit<CourseOptions, 'keep'> {
  /** Interval between the evaluated scrapes and between evaluations (minutes). Default 1. */
  readonly step?: number;
}

/** Runs a scenario of the emulator. Returns promtool's errors; empty if exactly these alerts fire. */
export async function unexpectedlyFired(names: readonly string[], { step, ...options }: Watched): Promise<string> {
  const needed = namesInRules(everyAlert);
  const course = await runCourse({ ...options, keep: name => needed.has(name) });
  const { minutes } = options;
  const input: Input = Object.fromEntries(
    [...course].map(([series, values]) => [series, (minute: number) => values[minute]]),
  );
  return testRules(everyAlert, [
    {
      name: options.scenario,
      input: replica({ up: () => 1, ...input }),
      minutes,
      step,
      queries: [firedUntil(minutes, names)],
    },
  ]);
}
