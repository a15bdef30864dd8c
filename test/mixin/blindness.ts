import type { AlertCase } from './cases/case.ts';
import { blindRestart, course } from './course.ts';
import { fires, isQuiet, isQuietFrom, neverFired, type RuleTest, replica } from './promtool.ts';
import { alertNamed, COARSE, coarse, type Generated, HOUR, KEPT, type Scene, two } from './scene.ts';

/** Tests in which nothing can be read for some time. */

/** All is well for so long before something happens. */
const WELL = 32;

/** It fires, then nothing can be read; meanwhile what was wrong ends. */
function held({ each, sees }: Scene, span: number, step: number | undefined): RuleTest {
  const { alert, fires: ill, idle, recovery = idle, memory = HOUR, judgedAfter = memory } = each;
  const at = coarse(each.at + (span > HOUR ? COARSE : 0));
  const [from, to] = [at + 4, at + 4 + span];
  const last = coarse(to + judgedAfter + 2 * KEPT);
  return {
    name: `${alert} goes on firing through ${span} min of blindness, and ends when all is back and well`,
    input: replica(sees(course(ill, [from + 8, recovery]), { from, to })),
    minutes: last,
    step,
    queries: [
      ...[4, span / 2, span - 4, span].map(minute => fires(alert, from + coarse(minute))),
      isQuiet(alert, last),
    ],
  };
}

/** All was well; what went wrong in the dark is over. Or not. */
function caughtUp({ each, sees }: Scene, span: number, step: number | undefined): RuleTest[] {
  const { alert, fires: ill, at, idle, recovery = idle, memory = HOUR, judgedAfter = memory } = each;
  const [from, to] = [WELL, WELL + span];
  const over = to + coarse(judgedAfter + KEPT);
  const still = to + coarse(judgedAfter + at + KEPT);
  // What is over for less than the windows are long may still be told.
  const isOver = (each.memory ?? 0) < span;
  const quietAfter: RuleTest = {
    name: `${alert} is quiet about what was over before ${span} min of blindness were`,
    input: replica(sees(course(idle, [from + 4, ill], [from + 28, recovery]), { from, to })),
    minutes: over,
    step,
    queries: [neverFired(alert, over)],
  };
  return [
    ...(isOver ? [quietAfter] : []),
    {
      name: `${alert} fires for what began in ${span} min of blindness and goes on`,
      input: replica(sees(course(idle, [from + 28, ill]), { from, to })),
      minutes: still,
      step,
      queries: [neverFired(alert, to - 4), fires(alert, still)],
    },
  ];
}

/** Nothing can be read any more a minute before the alert would fire, and as soon as it is pending at all. */
function pending({ each, sees }: Scene): RuleTest[] {
  const { alert, fires: ill, at, step = 1 } = each;
  const patience = minutesOf(alertNamed(alert).for);
  const darkFrom = [Math.max(1, at - patience), at - 2].map(from => Math.max(1, Math.min(from, at - 2)));
  return [...new Set(darkFrom)].map(from => ({
    name: `${alert} does not begin while nothing is read from minute ${from} on`,
    input: replica(sees(ill, { from, to: 9999 })),
    minutes: at + HOUR,
    step,
    queries: [neverFired(alert, at + HOUR)],
  }));
}
const minutesOf = (text = '0m') => Number.parseInt(text, 10) * (text.endsWith('h') ? 60 : 1);

export const blindHour: Generated = scene => {
  if (!scene.canBeBlind) return [];
  const { alert, fires: ill, at, step } = scene.each;
  const again = at + HOUR;
  return [
    held(scene, HOUR, step),
    ...caughtUp(scene, HOUR, step),
    ...pending(scene),
    {
      name: `${alert} goes on firing through a restart while nothing is read`,
      input: replica(blindRestart(scene.sees(ill, { from: at + 4, to: 9999 }), again)),
      minutes: again + HOUR,
      step,
      queries: [4, 16, 20, 24, HOUR].map(minute => fires(alert, again + minute)),
    },
  ];
};

/** To windows of at most an hour some hours are as good as a day. */
const longBlindness = ({ step = 1 }: AlertCase) => (step > 1 ? 24 : 6) * HOUR;

export const blindDay: Generated = scene => {
  const span = longBlindness(scene.each);
  return scene.canBeBlind ? [held(scene, span, COARSE), ...caughtUp(scene, span, COARSE)] : [];
};

export const behindReplica: Generated = ({ each, sees, canBeBlind }) => {
  if (!canBeBlind) return [];
  const { alert, fires: ill, idle, recovery = idle, memory = HOUR, judgedAfter = memory } = each;
  const [from, to] = [WELL, WELL + longBlindness(each)];
  const truth = course(idle, [from + 4, ill], [from + 28, recovery]);
  const last = to + coarse(judgedAfter + KEPT);
  return [
    {
      name: `${alert} is quiet when one of two replicas catches up`,
      input: { ...replica(sees(truth, { from, to })), ...replica(sees(truth), two) },
      minutes: last,
      step: COARSE,
      queries: [isQuietFrom(alert, to - 4, last)],
    },
  ];
};
