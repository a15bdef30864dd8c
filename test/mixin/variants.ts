import { collectors } from '../../src/collectors/index.ts';
import { alertGroups } from '../../src/mixin/rules.ts';
import type { AlertCase, Input, Variant } from './cases/case.ts';
import {
  allRounds,
  blindRestart,
  course,
  type Darkness,
  delayed,
  ended,
  health,
  isCounter,
  oneOfEach,
  type Round,
  reset,
  restarted,
  unseen,
  withGaps,
} from './course.ts';
import { knownSeries } from './known-series.ts';
import {
  fires,
  firesIn,
  isQuiet,
  isQuietFrom,
  namesInRules,
  neverFired,
  type RuleTest,
  replica,
  type Target,
} from './promtool.ts';

/** Objectives and the like are shown only where the agent has such families. */
const isKnown = (series: string) => knownSeries.has(series.replace(/\{.*/, ''));

/** How long the longest alert goes on firing when it is no longer true, in minutes, and a little more. */
const KEPT = 20;
const HOUR = 60;
/** All is well for so long before something happens. */
const WELL = 32;
/** A day's blindness is sampled so seldom: less than the five minutes that Prometheus looks back. */
const COARSE = 4;
const coarse = (minute: number) => Math.ceil(minute / COARSE) * COARSE;

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

type Generated = (scene: Scene) => readonly RuleTest[];

const two = 'two:10922';

const twoReplicas: Generated = ({ each: { alert, fires: ill, at, idle, step }, sees, canBeBlind }) => [
  {
    name: `${alert} fires once for two replicas`,
    input: { ...replica(sees(ill)), ...replica(sees(ill), two) },
    minutes: at,
    step,
    queries: [fires(alert, at), neverFired(alert, at - 1)],
  },
  {
    name: `${alert} fires when one of two replicas is lost`,
    input: { ...replica(sees(ill)), ...replica(ended(sees(ill), at - 1), two) },
    minutes: at + 12,
    step,
    queries: [fires(alert, at), fires(alert, at + 12)],
  },
  ...(canBeBlind
    ? [
        {
          name: `${alert} fires though one of two replicas has long been blind`,
          input: {
            ...replica(sees(course(idle, [HOUR, ill]))),
            ...replica(sees(course(idle, [HOUR, ill]), { from: 30, to: 9999 }), two),
          },
          minutes: coarse(HOUR + at + 8),
          step,
          queries: [fires(alert, coarse(HOUR + at + 8))],
        },
      ]
    : []),
];

const missingSamples: Generated = ({ each: { alert, fires: ill, at, step = 1 }, sees }) =>
  // Every fourth minute is all there is anyway.
  step > 1
    ? []
    : [
        {
          name: `${alert} fires where samples are missing`,
          input: replica(withGaps(sees(ill))),
          minutes: at + 5,
          queries: [fires(alert, at + 5)],
        },
      ];

const restart: Generated = ({ each: { alert, fires: ill, at, step }, sees }) => [
  {
    name: `${alert} goes on firing through a restart`,
    input: replica(restarted(sees(ill), at + 4)),
    minutes: at + 32,
    step,
    queries: [8, 12, 16, 32].map(minute => fires(alert, at + minute)),
  },
  {
    name: `${alert} fires though the agent restarts just before`,
    input: replica(restarted(sees(ill), Math.max(1, at - 4))),
    minutes: at + 8,
    step,
    queries: [fires(alert, at + 8)],
  },
];

const withoutStore: Generated = ({ each: { alert, fires: ill, at, step }, sees }) => [
  {
    name: `${alert} goes on firing though the store is lost`,
    input: replica(reset(sees(ill), at + 4)),
    minutes: at + 16,
    step,
    queries: [8, 12, 16].map(minute => fires(alert, at + minute)),
  },
];

const firstHour: Generated = ({ each: { alert, fires: ill, at, step }, sees }) => [
  {
    name: `${alert} fires in the first hour of a new agent`,
    input: replica(delayed(sees(ill), 2 * HOUR)),
    minutes: 2 * HOUR + at,
    step,
    queries: [fires(alert, 2 * HOUR + at), neverFired(alert, 2 * HOUR + at - 1)],
  },
];

const lowTraffic: Generated = ({ each: { alert, fires: ill, at, step }, sees }) =>
  Object.keys(ill).some(isCounter)
    ? [
        {
          name: `${alert} is quiet about one of each`,
          input: replica(sees(oneOfEach(ill))),
          minutes: at + HOUR,
          step,
          queries: [neverFired(alert, at + HOUR)],
        },
      ]
    : [];

const namespaces: Generated = ({ each, sees, canBeBlind }) => {
  const { alert, fires: ill, at, idle, recovery = idle, step } = each;
  const prod: Target = { instance: 'one:10922', namespace: 'prod' };
  const stage: Target = { instance: 'two:10922', namespace: 'stage' };
  const over = sees(course(ill, [at + 4, recovery]));
  const last = coarse(at + 4 + (each.memory ?? HOUR) + KEPT);
  return [
    {
      name: `${alert} fires in the namespace that is ill, and not in one that is well`,
      input: { ...replica(sees(ill), prod), ...replica(sees(idle), stage) },
      minutes: at + 4,
      step,
      queries: [neverFired(alert, at - 1), firesIn(alert, 'prod', at), firesIn(alert, 'prod', at + 4)],
    },
    ...(canBeBlind
      ? [
          {
            name: `${alert} ends in one namespace while another is blind`,
            input: { ...replica(over, prod), ...replica(sees(idle, { from: 2, to: 9999 }), stage) },
            minutes: last,
            step,
            queries: [firesIn(alert, 'prod', at), isQuiet(alert, last)],
          },
          {
            name: `${alert} goes on in a blind namespace while another is well`,
            input: { ...replica(sees(ill, { from: at + 4, to: 9999 }), prod), ...replica(sees(idle), stage) },
            minutes: at + 2 * HOUR,
            step,
            queries: [4, HOUR, 2 * HOUR].map(minute => firesIn(alert, 'prod', at + minute)),
          },
        ]
      : []),
  ];
};

const targetLabels: Generated = ({ each, sees, canBeBlind }) => {
  const { alert, fires: ill, at, step } = each;
  const darkness = canBeBlind ? { from: at + 4, to: 9999 } : undefined;
  const one: Target = { instance: 'one:10922', team: 'x', node: 'n1' };
  return [
    {
      name: `${alert} fires once whatever labels the targets have`,
      input: {
        ...replica(sees(ill, darkness), one),
        ...replica(sees(ill, darkness), { ...one, instance: two, node: 'n2' }),
      },
      minutes: at + HOUR,
      step,
      queries: [fires(alert, at), ...(canBeBlind ? [12, HOUR].map(minute => fires(alert, at + minute)) : [])],
    },
  ];
};

const rejectedRows: Generated = ({ each, sees, canBeBlind }) => {
  if (!canBeBlind) return [];
  const { alert, fires: ill, at, idle, recovery = idle, memory = HOUR, step } = each;
  const [from, whole] = [at + 4, at + HOUR];
  const input = sees(course(ill, [from, recovery]));
  const partial: Input = Object.fromEntries(
    Object.entries(input).map(([series, values]) => [
      series,
      series.startsWith('delivery_collector_data_complete') ? m => (m >= from && m < whole ? 0 : values(m)) : values,
    ]),
  );
  const last = coarse(whole + memory + KEPT);
  return [
    {
      name: `${alert} goes on firing while rows can not be read, and ends when they can`,
      input: replica(partial),
      minutes: last,
      step,
      queries: [...[4, 28, 56].map(minute => fires(alert, at + minute)), isQuiet(alert, last)],
    },
  ];
};

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

const blindHour: Generated = scene => {
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

const blindDay: Generated = scene => {
  const span = longBlindness(scene.each);
  return scene.canBeBlind ? [held(scene, span, COARSE), ...caughtUp(scene, span, COARSE)] : [];
};

const behindReplica: Generated = ({ each, sees, canBeBlind }) => {
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

const generators: Readonly<Record<Variant, Generated>> = {
  'two replicas': twoReplicas,
  'missing samples': missingSamples,
  restart,
  reset: withoutStore,
  'first hour': firstHour,
  'low traffic': lowTraffic,
  namespaces,
  'target labels': targetLabels,
  'rejected rows': rejectedRows,
  'blind hour': blindHour,
  'blind day': blindDay,
  'behind replica': behindReplica,
};

/** Every variant that makes sense for the alert. */
export const variantsOf = (scene: Scene): RuleTest[] =>
  Object.entries(generators).flatMap(([variant, generate]) =>
    scene.each.exempt?.[variant as Variant] ? [] : generate(scene),
  );

/** It ends when it is over. */
export function ends({ each, sees }: Scene): RuleTest {
  const { alert, fires: ill, at, idle, recovery = idle, memory = HOUR, step } = each;
  const last = coarse(at + 4 + memory + 2 * KEPT);
  return {
    name: `${alert} ends when it is over`,
    input: replica(sees(course(ill, [at + 4, recovery]))),
    minutes: last,
    step,
    queries: [fires(alert, at), isQuiet(alert, last)],
  };
}

/** It never fires: in one replica, nor in two of which one loses its store. */
export function quiet({ each: { alert, at, step }, sees }: Scene, why: string, input: Input): RuleTest[] {
  const minutes = at + HOUR;
  const seen = sees(input);
  return [
    { name: `${alert} is quiet: ${why}`, input: replica(seen), minutes, step, queries: [neverFired(alert, minutes)] },
    {
      name: `${alert} is quiet in replicas: ${why}`,
      input: { ...replica(seen), ...replica(reset(seen, at + 4), two) },
      minutes,
      step,
      queries: [neverFired(alert, minutes)],
    },
  ];
}
