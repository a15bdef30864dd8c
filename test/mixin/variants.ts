import { behindReplica, blindDay, blindHour } from './blindness.ts';
import type { Input, Variant } from './cases/case.ts';
import { course, delayed, ended, isCounter, oneOfEach, reset, restarted, withGaps } from './course.ts';
import { handovers } from './handover.ts';
import { fires, firesIn, isQuiet, neverFired, type RuleTest, replica, type Target } from './promtool.ts';
import { coarse, type Generated, HOUR, KEPT, type Scene, two } from './scene.ts';

const twoReplicas: Generated = ({ each: { alert, fires: cause, at, idle, step }, withHealth, canBeBlind }) => [
  {
    name: `${alert} fires once for two replicas`,
    input: { ...replica(withHealth(cause)), ...replica(withHealth(cause), two) },
    minutes: at,
    step,
    queries: [fires(alert, at), neverFired(alert, at - 1)],
  },
  {
    name: `${alert} fires when one of two replicas ends`,
    input: { ...replica(withHealth(cause)), ...replica(ended(withHealth(cause), at), two) },
    minutes: at + 12,
    step,
    queries: [fires(alert, at), fires(alert, at + 12)],
  },
  ...(canBeBlind
    ? [
        {
          name: `${alert} fires although one of two replicas has long been blind`,
          input: {
            ...replica(withHealth(course(idle, [HOUR, cause]))),
            ...replica(withHealth(course(idle, [HOUR, cause]), { from: 30, to: 9999 }), two),
          },
          minutes: coarse(HOUR + at + 8),
          step,
          queries: [fires(alert, coarse(HOUR + at + 8))],
        },
      ]
    : []),
];

const missingSamples: Generated = ({ each: { alert, fires: cause, at, step = 1 }, withHealth }) =>
  // Tests with a step of four minutes do not contain these samples anyway.
  step > 1
    ? []
    : [
        {
          name: `${alert} fires although samples are missing`,
          input: replica(withGaps(withHealth(cause))),
          minutes: at + 5,
          queries: [fires(alert, at + 5)],
        },
      ];

const restart: Generated = ({ each: { alert, fires: cause, at, step }, withHealth }) => [
  {
    name: `${alert} keeps firing through a restart`,
    input: replica(restarted(withHealth(cause), at + 4)),
    minutes: at + 32,
    step,
    queries: [8, 12, 16, 32].map(minute => fires(alert, at + minute)),
  },
  {
    name: `${alert} fires although the agent restarts just before`,
    input: replica(restarted(withHealth(cause), Math.max(1, at - 4))),
    minutes: at + 8,
    step,
    queries: [fires(alert, at + 8)],
  },
];

const withoutStore: Generated = ({ each: { alert, fires: cause, at, step }, withHealth }) => [
  {
    name: `${alert} keeps firing although the store is lost`,
    input: replica(reset(withHealth(cause), at + 4)),
    minutes: at + 16,
    step,
    queries: [8, 12, 16].map(minute => fires(alert, at + minute)),
  },
];

const firstHour: Generated = ({ each: { alert, fires: cause, at, step }, withHealth }) => [
  {
    name: `${alert} fires in the first hour of a new agent`,
    input: replica(delayed(withHealth(cause), 2 * HOUR)),
    minutes: 2 * HOUR + at,
    step,
    queries: [fires(alert, 2 * HOUR + at), neverFired(alert, 2 * HOUR + at - 1)],
  },
];

const lowTraffic: Generated = ({ each: { alert, fires: cause, at, step }, withHealth }) =>
  Object.keys(cause).some(isCounter)
    ? [
        {
          name: `${alert} is quiet if every counter is at most one`,
          input: replica(withHealth(oneOfEach(cause))),
          minutes: at + HOUR,
          step,
          queries: [neverFired(alert, at + HOUR)],
        },
      ]
    : [];

const namespaces: Generated = ({ each, withHealth, canBeBlind }) => {
  const { alert, fires: cause, at, idle, recovery = idle, step } = each;
  const prod: Target = { instance: 'one:10922', namespace: 'prod' };
  const stage: Target = { instance: 'two:10922', namespace: 'stage' };
  const over = withHealth(course(cause, [at + 4, recovery]));
  const last = coarse(at + 4 + (each.memory ?? HOUR) + KEPT);
  return [
    {
      name: `${alert} fires only in the affected namespace`,
      input: { ...replica(withHealth(cause), prod), ...replica(withHealth(idle), stage) },
      minutes: at + 4,
      step,
      queries: [neverFired(alert, at - 1), firesIn(alert, 'prod', at), firesIn(alert, 'prod', at + 4)],
    },
    ...(canBeBlind
      ? [
          {
            name: `${alert} resolves in one namespace while another is blind`,
            input: { ...replica(over, prod), ...replica(withHealth(idle, { from: 2, to: 9999 }), stage) },
            minutes: last,
            step,
            queries: [firesIn(alert, 'prod', at), isQuiet(alert, last)],
          },
          {
            name: `${alert} keeps firing in a blind namespace while another is healthy`,
            input: {
              ...replica(withHealth(cause, { from: at + 4, to: 9999 }), prod),
              ...replica(withHealth(idle), stage),
            },
            minutes: at + 2 * HOUR,
            step,
            queries: [4, HOUR, 2 * HOUR].map(minute => firesIn(alert, 'prod', at + minute)),
          },
        ]
      : []),
  ];
};

const targetLabels: Generated = ({ each, withHealth, canBeBlind }) => {
  const { alert, fires: cause, at, step } = each;
  const darkness = canBeBlind ? { from: at + 4, to: 9999 } : undefined;
  const one: Target = { instance: 'one:10922', team: 'x', node: 'n1' };
  return [
    {
      name: `${alert} fires once regardless of target labels`,
      input: {
        ...replica(withHealth(cause, darkness), one),
        ...replica(withHealth(cause, darkness), { ...one, instance: two, node: 'n2' }),
      },
      minutes: at + HOUR,
      step,
      queries: [fires(alert, at), ...(canBeBlind ? [12, HOUR].map(minute => fires(alert, at + minute)) : [])],
    },
  ];
};

const rejectedRows: Generated = ({ each, withHealth, canBeBlind }) => {
  if (!canBeBlind) return [];
  const { alert, fires: cause, at, idle, recovery = idle, memory = HOUR, step } = each;
  const [from, whole] = [at + 4, at + HOUR];
  const input = withHealth(course(cause, [from, recovery]));
  const partial: Input = Object.fromEntries(
    Object.entries(input).map(([series, values]) => [
      series,
      series.startsWith('delivery_collector_data_complete') ? m => (m >= from && m < whole ? 0 : values(m)) : values,
    ]),
  );
  const last = coarse(whole + memory + KEPT);
  return [
    {
      name: `${alert} keeps firing while rows are unreadable and resolves afterwards`,
      input: replica(partial),
      minutes: last,
      step,
      queries: [...[4, 28, 56].map(minute => fires(alert, at + minute)), isQuiet(alert, last)],
    },
  ];
};

const handover: Generated = ({ each, withHealth }) => {
  const { alert, fires: cause, at, idle, step, evaluableAfter = 0 } = each;
  const keepsFiring = (how: keyof typeof handovers): RuleTest => ({
    name: `${alert} keeps firing during a handover: ${how}`,
    input: handovers[how](withHealth(cause), at + 4),
    minutes: at + 36,
    step,
    queries: [8, 12, 16, 32].map(minute => fires(alert, at + minute)),
  });
  const before = Math.max(1, at - 4);
  const fallsInto = (how: keyof typeof handovers): RuleTest => ({
    name: `${alert} fires although a handover was just before: ${how}`,
    input: handovers[how](withHealth(cause), before),
    minutes: at + 12,
    step,
    queries: [fires(alert, at + 8)],
  });
  const later = coarse(30 + Math.max(at, evaluableAfter) + 8);
  return [
    ...(['released', 'afterKill', 'cutOff', 'probedElsewhere'] as const).map(keepsFiring),
    ...(['released', 'afterKill'] as const).map(fallsInto),
    {
      name: `${alert} fires for a cause that starts while one of two replicas has no database`,
      input: handovers.cutOff(withHealth(course(idle, [30, cause])), 28),
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
  handover: handover,
  'behind replica': behindReplica,
};

/**
 * Variants that occur in every installation. `npm test` runs them for alerts without multi-day windows. Long tests cover
 * everything else.
 */
const USUAL: readonly Variant[] = ['two replicas', 'missing samples', 'restart', 'reset', 'low traffic', 'blind hour'];

export type Share = 'usual' | 'rare';

/** Returns the tests of those variants in a share that apply to the alert. */
const variantsOf = (scene: Scene, share: Share): RuleTest[] =>
  Object.entries(generators)
    .filter(([variant]) => USUAL.includes(variant as Variant) === (share === 'usual'))
    .flatMap(([variant, generate]) => (scene.each.exempt?.[variant as Variant] ? [] : generate(scene)));

function ends({ each, withHealth }: Scene): RuleTest {
  const { alert, fires: cause, at, idle, recovery = idle, memory = HOUR, step } = each;
  const last = coarse(at + 4 + memory + 2 * KEPT);
  return {
    name: `${alert} resolves after its cause ends`,
    input: replica(withHealth(course(cause, [at + 4, recovery]))),
    minutes: last,
    step,
    queries: [fires(alert, at), isQuiet(alert, last)],
  };
}

/** Returns a test which expects that the alert does not fire on this input in one replica. */
function quiet({ each: { alert, at, step }, withHealth }: Scene, why: string, input: Input): RuleTest {
  const minutes = at + HOUR;
  const name = `${alert} is quiet: ${why}`;
  return { name, input: replica(withHealth(input)), minutes, step, queries: [neverFired(alert, minutes)] };
}

/**
 * Returns tests which expect that the alert does not fire if one of two replicas loses its store, or if the account moves to a
 * replica and back.
 */
function quietInReplicas({ each: { alert, at, step }, withHealth }: Scene, why: string, input: Input): RuleTest[] {
  const minutes = at + HOUR;
  const seen = withHealth(input);
  return [
    {
      name: `${alert} is quiet in replicas: ${why}`,
      input: { ...replica(seen), ...replica(reset(seen, at + 4), two) },
      minutes,
      step,
      queries: [neverFired(alert, minutes)],
    },
    {
      name: `${alert} is quiet when the account moves to another replica and back: ${why}`,
      input: handovers.thereAndBack(seen, Math.max(4, at - 16)),
      minutes,
      step,
      queries: [neverFired(alert, minutes)],
    },
  ];
}

/** Returns all tests of an alert, except for the test of the minute at which it starts to fire. */
export function testsOf(scene: Scene, share: Share): RuleTest[] {
  const still = Object.entries({ 'no series': {}, 'at rest': scene.each.idle, ...scene.each.below });
  return [
    ...variantsOf(scene, share),
    ...(share === 'usual'
      ? [ends(scene), ...still.map(([why, input]) => quiet(scene, why, input))]
      : still.flatMap(([why, input]) => quietInReplicas(scene, why, input))),
  ];
}
