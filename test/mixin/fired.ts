import { alertGroups } from '../../mixin/rules.ts';
import { type CourseOptions, runCourse } from '../support/course.ts';
import type { Input } from './cases/case.ts';
import { namesInRules, type Query, replica, testRules } from './promtool.ts';

const everyAlert = alertGroups.flatMap(({ alerts }) => alerts.map(({ name }) => name));

/** Exactly these alerts have fired at some time until then, besides those that only tell what is new. */
const firedUntil = (minute: number, names: readonly string[]): Query => ({
  expr: `group by (alertname) (count_over_time(ALERTS{alertstate="firing",severity!="info"}[${minute}m]))`,
  minute,
  expected: names.map(name => ({ labels: `{alertname="${name}"}`, value: 1 })),
});

interface Watched extends Omit<CourseOptions, 'keep'> {
  /** Minutes between the scrapes that are judged, and between evaluations; default 1. */
  readonly step?: number;
}

/** What is wrong with the expectation that in a scenario of the emulator exactly these alerts fire; nothing when all is well. */
export async function wronglyFired(names: readonly string[], { step, ...options }: Watched): Promise<string> {
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
