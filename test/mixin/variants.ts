import { behindReplica, blindDay, blindHour } from './blindness.ts';
import type { Input, Variant } from './cases/case.ts';
import { course, delayed, ended, isCounter, oneOfEach, reset, restarted, withGaps } from './course.ts';
import { handedOver } from './hand-over.ts';
import { fires, firesIn, isQuiet, neverFired, type RuleTest, replica, type Target } from './promtool.ts';
import { coarse, type Generated, HOUR, KEPT, type Scene, two } from './scene.ts';

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
    input: { ...replica(sees(ill)), ...replica(ended(sees(ill), at), two) },
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

const handOver: Generated = ({ each: { alert, fires: ill, at, idle, step }, sees }) => {
  const goesOn = (how: keyof typeof handedOver): RuleTest => ({
    name: `${alert} goes on firing over a hand-over: ${how}`,
    input: handedOver[how](sees(ill), at + 4),
    minutes: at + 36,
    step,
    queries: [8, 12, 16, 32].map(minute => fires(alert, at + minute)),
  });
  const before = Math.max(1, at - 4);
  const fallsInto = (how: keyof typeof handedOver): RuleTest => ({
    name: `${alert} fires though a hand-over was just before: ${how}`,
    input: handedOver[how](sees(ill), before),
    minutes: at + 12,
    step,
    queries: [fires(alert, at + 8)],
  });
  const later = coarse(30 + at + 8);
  return [
    ...(['givenBack', 'afterKill', 'cutOff', 'probedElsewhere'] as const).map(goesOn),
    ...(['givenBack', 'afterKill'] as const).map(fallsInto),
    {
      name: `${alert} fires for what begins when one of two can not store anything`,
      input: handedOver.cutOff(sees(course(idle, [30, ill])), 28),
      minutes: later,
      step,
      queries: [fires(alert, later)],
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
  'hand-over': handOver,
  'behind replica': behindReplica,
};

/** What every user meets sooner or later: `npm test` tries alerts on windows of hours with these, the long tests with all others. */
const USUAL: readonly Variant[] = ['two replicas', 'missing samples', 'restart', 'reset', 'low traffic', 'blind hour'];

export type Share = 'usual' | 'rare';

/** Every variant that makes sense for the alert, of those that are so. */
const variantsOf = (scene: Scene, share: Share): RuleTest[] =>
  Object.entries(generators)
    .filter(([variant]) => USUAL.includes(variant as Variant) === (share === 'usual'))
    .flatMap(([variant, generate]) => (scene.each.exempt?.[variant as Variant] ? [] : generate(scene)));

/** It ends when it is over. */
function ends({ each, sees }: Scene): RuleTest {
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

/** It never fires in one replica. */
function quiet({ each: { alert, at, step }, sees }: Scene, why: string, input: Input): RuleTest {
  const minutes = at + HOUR;
  const name = `${alert} is quiet: ${why}`;
  return { name, input: replica(sees(input)), minutes, step, queries: [neverFired(alert, minutes)] };
}

/** Nor in two of which one loses its store, nor when the account goes to another and comes back. */
function quietInReplicas({ each: { alert, at, step }, sees }: Scene, why: string, input: Input): RuleTest[] {
  const minutes = at + HOUR;
  const seen = sees(input);
  return [
    {
      name: `${alert} is quiet in replicas: ${why}`,
      input: { ...replica(seen), ...replica(reset(seen, at + 4), two) },
      minutes,
      step,
      queries: [neverFired(alert, minutes)],
    },
    {
      name: `${alert} is quiet when the account goes to another replica and comes back: ${why}`,
      input: handedOver.thereAndBack(seen, Math.max(4, at - 16)),
      minutes,
      step,
      queries: [neverFired(alert, minutes)],
    },
  ];
}

/** Everything an alert is tried with, besides that it fires at its minute. */
export function testsOf(scene: Scene, share: Share): RuleTest[] {
  const still = Object.entries({ 'nothing is there': {}, 'at rest': scene.each.idle, ...scene.each.below });
  return [
    ...variantsOf(scene, share),
    ...(share === 'usual'
      ? [ends(scene), ...still.map(([why, input]) => quiet(scene, why, input))]
      : still.flatMap(([why, input]) => quietInReplicas(scene, why, input))),
  ];
}
