/** Situations in which every problem is replayed: restarts, a lost store, failed and incomplete reads, little traffic. */
import { course, oneOfEach } from './course.ts';
import type { ProblemCase, Variant } from './problem.ts';
import { FOREVER, HOUR, type Situation } from './situation.ts';

export interface Replay {
  readonly name: string;
  readonly situation: Situation;
  /** Expected episodes of the problem. */
  readonly lines: readonly string[];
}

/** Time without an agent during a restart (minutes). */
const RESTART = 2;
/** Time that the agent needs after its start for a first evaluation of its reads (minutes). */
const STARTED = 1;
/** `for` of the longest kind (minutes). */
const PENDING = 15;

const ofRestart = ({ what, input, at: [first, last] }: ProblemCase): Replay[] => {
  const before = Math.max(1, last - 4);
  return [
    {
      name: 'a restart while it is reported',
      situation: { input, minutes: last + 40, down: [[last + 4, last + 4 + RESTART]] },
      lines: [`${what} ${first}..${last}`],
    },
    {
      name: 'a restart just before',
      situation: { input, minutes: last + 20, down: [[before, before + RESTART]] },
      lines: [`${what} ${first}..${last + RESTART + 8}`],
    },
  ];
};

const ofLostStore = ({ what, input, at: [first, last], regained = PENDING + 3 }: ProblemCase): Replay[] => {
  const back = last + 4 + RESTART;
  return [
    {
      name: 'a lost store: it is reported again',
      situation: { input, minutes: back + regained + 10, down: [[last + 4, back]], lost: [back] },
      lines: [`${what} ${first}..${last} – ${back}`, `${what} ${back}..${last + 4 + regained}`],
    },
  ];
};

const ofFirstHour = ({ what, input, at: [first, last] }: ProblemCase): Replay[] => [
  {
    name: 'the first hour of an agent that is started later',
    situation: { input: course({}, [2 * HOUR, input]), minutes: 2 * HOUR + last + 10, down: [[0, 2 * HOUR]] },
    lines: [`${what} ${2 * HOUR + first}..${2 * HOUR + last + STARTED}`],
  },
];

const ofLowTraffic = ({ input, at: [, last] }: ProblemCase): Replay[] => {
  const few = oneOfEach(input);
  const isSame = Object.entries(input).every(([key, values]) => few[key as keyof typeof few] === values);
  return isSame ? [] : [{ name: 'at most one of each', situation: { input: few, minutes: last + HOUR }, lines: [] }];
};

const ofUnreadableRows = ({ what, input, recovery, memory, at: [first, last] }: ProblemCase): Replay[] => {
  const [end, whole] = [last + 4, last + HOUR];
  return [
    {
      name: 'unreadable rows hide its end',
      situation: {
        input: course(input, [end, recovery]),
        minutes: whole + memory + 10,
        unreadable: [[end, whole]],
      },
      lines: [`${what} ${first}..${last} – ${whole}..${whole + memory}`],
    },
  ];
};

/** Reads fail for `span` minutes. */
const ofBlindness =
  (span: number) =>
  (each: ProblemCase): Replay[] => {
    const { what, input, recovery, memory, at } = each;
    const [first, last] = at;
    const [from, to] = [last + 4, last + 4 + span];
    const [dark, light] = [32, 32 + span];
    return [
      {
        name: `its end during ${span} min of failed reads is found afterwards`,
        situation: {
          input: course(input, [from + 8, recovery]),
          minutes: to + memory + HOUR,
          dark: [[from, to]],
        },
        lines: [`${what} ${first}..${last} – ${to}..${to + memory}`],
      },
      {
        name: `a cause that begins and ends during ${span} min of failed reads`,
        situation: {
          input: course(recovery, [dark + 4, input], [dark + 28, recovery]),
          minutes: light + HOUR,
          dark: [[dark, light]],
        },
        lines: [],
      },
      {
        name: `a cause that begins during ${span} min of failed reads is found afterwards`,
        situation: {
          input: course(recovery, [dark + 28, input]),
          minutes: light + last + PENDING + 20,
          dark: [[dark, light]],
        },
        lines: [`${what} ${light}..${light + last + PENDING}`],
      },
    ];
  };

const ofBlindHour = (each: ProblemCase): Replay[] => {
  const { what, input, at } = each;
  const [first, last] = at;
  const starts = [...new Set([first - PENDING, first - 2].map(start => Math.max(1, start)))];
  return [
    ...ofBlindness(HOUR)(each),
    ...starts.map(start => ({
      name: `reads fail from minute ${start} on, before it is reported`,
      situation: { input, minutes: last + HOUR, dark: [[start, FOREVER]] as const },
      lines: [],
    })),
    {
      name: 'a restart while reads fail',
      situation: {
        input,
        minutes: last + 2 * HOUR,
        dark: [[last + 4, FOREVER]],
        down: [[last + HOUR, last + HOUR + RESTART]],
      },
      lines: [`${what} ${first}..${last}`],
    },
  ];
};

/** Time that the next agent takes to read the log completely (minutes). */
const CATCHING_UP = 15;

const ofCatchingUp = ({ what, input, at: [first, last], below, recovery }: ProblemCase): Replay[] => {
  const [end, back] = [last + 4, last + 8];
  const quiet = Object.entries({ 'at rest': { input: recovery }, ...below });
  return [
    {
      name: 'an agent reads four minutes of the log while it is reported',
      situation: { input, minutes: back + HOUR, down: [[end, back]], catchingUp: [back, back + CATCHING_UP] },
      lines: [`${what} ${first}..${last}`],
    },
    ...quiet.map(([why, situation]) => ({
      name: `an agent reads an hour of the log: ${why}`,
      situation: {
        ...situation,
        minutes: 3 * HOUR + last,
        down: [[HOUR, 2 * HOUR]] as const,
        catchingUp: [2 * HOUR, 2 * HOUR + CATCHING_UP] as const,
      },
      lines: [],
    })),
  ];
};

const VARIANTS: Readonly<Record<Variant, (each: ProblemCase) => readonly Replay[]>> = {
  restart: ofRestart,
  'lost store': ofLostStore,
  'first hour': ofFirstHour,
  'low traffic': ofLowTraffic,
  'unreadable rows': ofUnreadableRows,
  'blind hour': ofBlindHour,
  'blind day': ofBlindness(6 * HOUR),
  'catching up': each => (each.ofLog ? ofCatchingUp(each) : []),
};

export const replaysOf = (each: ProblemCase): readonly Replay[] =>
  Object.entries(VARIANTS).flatMap(([variant, make]) =>
    each.exempt?.[variant as Variant] === undefined
      ? make(each).map(({ name, situation, lines }) => ({
          name,
          situation: { ...situation, objectives: each.objectives ?? {} },
          lines,
        }))
      : [],
  );

/** The problem, its end, and inputs just below its limits. */
export function usualOf({ what, input, at: [first, last], below, recovery, memory }: ProblemCase): readonly Replay[] {
  const end = last + 4;
  return [
    {
      name: 'is reported in time and ends in time',
      situation: { input: course(input, [end, recovery]), minutes: end + memory + HOUR },
      lines: [`${what} ${first}..${last} – ${end}..${end + memory}`],
    },
    ...Object.entries(below).map(([why, situation]) => ({
      name: `is not reported: ${why}`,
      situation: { ...situation, minutes: last + HOUR },
      lines: [],
    })),
  ];
}
