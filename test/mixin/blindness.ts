import type { AlertCase } from './cases/case.ts';
import { blindRestart, course } from './course.ts';
import { fires, isQuiet, isQuietFrom, neverFired, type RuleTest, replica } from './promtool.ts';
import { alertNamed, COARSE, coarse, type Generated, HOUR, KEPT, type Scene, two } from './scene.ts';

/** Generates tests in which reads fail for some time. */

/** Minutes of healthy data before reads fail. */
const HEALTHY_FOR = 32;

/** The alert fires, then reads fail, and the cause ends while reads fail. */
function held({ each, withHealth }: Scene, span: number, step: number | undefined): RuleTest {
  const { alert, fires: cause, idle, recovery = idle, memory = HOUR, evaluableAfter = memory } = each;
  const at = coarse(each.at + (span > HOUR ? COARSE : 0));
  const [from, to] = [at + 4, at + 4 + span];
  const last = coarse(to + evaluableAfter + 2 * KEPT);
  return {
    name: `${alert} keeps firing through ${span} min of blindness and resolves when healthy data is back`,
    input: replica(withHealth(course(cause, [from + 8, recovery]), { from, to })),
    minutes: last,
    step,
    queries: [...[4, span / 2, span - 4].map(minute => fires(alert, from + coarse(minute))), isQuiet(alert, last)],
  };
}

/** The cause starts while reads fail. It either ends before reads succeed, or persists. */
function caughtUp({ each, withHealth }: Scene, span: number, step: number | undefined): RuleTest[] {
  const { alert, fires: cause, at, idle, recovery = idle, memory = HOUR, evaluableAfter = memory } = each;
  const [from, to] = [HEALTHY_FOR, HEALTHY_FOR + span];
  const over = to + coarse(evaluableAfter + KEPT);
  const still = to + coarse(evaluableAfter + at + KEPT);
  // If the window is longer than the blindness, the alert may fire for a cause that has ended.
  const isOver = (each.memory ?? 0) < span;
  const quietAfter: RuleTest = {
    name: `${alert} is quiet about a cause that starts and ends during ${span} min of blindness`,
    input: replica(withHealth(course(idle, [from + 4, cause], [from + 28, recovery]), { from, to })),
    minutes: over,
    step,
    queries: [neverFired(alert, over)],
  };
  return [
    ...(isOver ? [quietAfter] : []),
    {
      name: `${alert} fires for a cause that starts during ${span} min of blindness and persists`,
      input: replica(withHealth(course(idle, [from + 28, cause]), { from, to })),
      minutes: still,
      step,
      queries: [neverFired(alert, to - 4), fires(alert, still)],
    },
  ];
}

/** Reads start to fail when the alert becomes pending, or shortly before it would fire. */
function pending({ each, withHealth }: Scene): RuleTest[] {
  const { alert, fires: cause, at, step = 1 } = each;
  const pendingFor = minutesOf(alertNamed(alert).for);
  const darkFrom = [Math.max(1, at - pendingFor), at - 2].map(from => Math.max(1, Math.min(from, at - 2)));
  return [...new Set(darkFrom)].map(from => ({
    name: `${alert} does not start to fire if reads fail from minute ${from}`,
    input: replica(withHealth(cause, { from, to: 9999 })),
    minutes: at + HOUR,
    step,
    queries: [neverFired(alert, at + HOUR)],
  }));
}
const minutesOf = (text = '0m') => Number.parseInt(text, 10) * (text.endsWith('h') ? 60 : 1);

export const blindHour: Generated = scene => {
  if (!scene.canBeBlind) return [];
  const { alert, fires: cause, at, step } = scene.each;
  const again = at + HOUR;
  return [
    held(scene, HOUR, step),
    ...caughtUp(scene, HOUR, step),
    ...pending(scene),
    {
      name: `${alert} keeps firing through a restart while reads fail`,
      input: replica(blindRestart(scene.withHealth(cause, { from: at + 4, to: 9999 }), again)),
      minutes: again + HOUR,
      step,
      queries: [4, 16, 20, 24, HOUR].map(minute => fires(alert, again + minute)),
    },
  ];
};

/** Duration of long blindness (minutes). For windows of at most an hour, six hours have the same effect as a day. */
const longBlindness = ({ step = 1 }: AlertCase) => (step > 1 ? 24 : 6) * HOUR;

export const blindDay: Generated = scene => {
  const span = longBlindness(scene.each);
  return scene.canBeBlind ? [held(scene, span, COARSE), ...caughtUp(scene, span, COARSE)] : [];
};

export const behindReplica: Generated = ({ each, withHealth, canBeBlind }) => {
  if (!canBeBlind) return [];
  const { alert, fires: cause, idle, recovery = idle, memory = HOUR, evaluableAfter = memory } = each;
  const [from, to] = [HEALTHY_FOR, HEALTHY_FOR + longBlindness(each)];
  const truth = course(idle, [from + 4, cause], [from + 28, recovery]);
  const last = to + coarse(evaluableAfter + KEPT);
  return [
    {
      name: `${alert} is quiet while one of two replicas catches up`,
      input: { ...replica(withHealth(truth, { from, to })), ...replica(withHealth(truth), two) },
      minutes: last,
      step: COARSE,
      queries: [isQuietFrom(alert, to - 4, last)],
    },
  ];
};
