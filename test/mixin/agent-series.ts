import type { Input, Values } from './promtool.ts';

const labelsOf = (labels: Readonly<Record<string, string | undefined>>) =>
  Object.entries(labels)
    .flatMap(([name, value]) => (value === undefined ? [] : `${name}="${value}"`))
    .join(',');

export interface AgentSpec {
  readonly instance?: string;
  readonly job?: string;
  readonly cluster?: string;
  /** Account of the target, if accounts are scraped separately. */
  readonly probe?: string;
  /** Whether scrapes succeed; undefined: the target is unknown. */
  readonly up?: Values;
  /** Whether the process collects the account. */
  readonly accounts?: Readonly<Record<string, (minute: number) => boolean>>;
  /** Values of `delivery_problem` by `account kind severity [subject]`. The account `-` denotes the agent. */
  readonly problems?: Readonly<Record<string, Values>>;
  /** Whether the process leads, if the store is shared. */
  readonly leads?: Values;
}

export const always = () => true;
export const flat =
  (value: number): Values =>
  () =>
    value;

/** Returns the series that Prometheus has of one target. All of them except `up` exist only while scrapes succeed. */
export function agent({
  instance = 'one:10922',
  job = 'delivery-watch',
  cluster,
  probe,
  up = flat(1),
  accounts = { a: always },
  problems = {},
  leads,
}: AgentSpec): Input {
  const ofTarget = {
    job,
    cluster,
    ...(probe ? { instance: `delivery-watch/${probe}`, replica: instance } : { instance }),
  };
  const target = { ...ofTarget, pod: `pod-${instance}` };
  const whileUp =
    (values: Values): Values =>
    minute => {
      const isUp = up(minute);
      return isUp === undefined || isUp === 0 ? undefined : Number.isNaN(isUp) ? Number.NaN : values(minute);
    };
  const series = (name: string, labels: Readonly<Record<string, string | undefined>>, values: Values) =>
    [`${name}{${labelsOf({ ...target, ...labels })}}`, whileUp(values)] as const;
  return Object.fromEntries([
    [`up{${labelsOf(ofTarget)}}`, up] as const,
    series('delivery_watch_build_info', {}, flat(1)),
    ...Object.entries(accounts).map(([account, isCollected]) =>
      series('delivery_up', { account }, minute => (isCollected(minute) ? 1 : undefined)),
    ),
    ...Object.entries(problems).map(([name, values]) => {
      const [account, kind, severity, subject] = name.split(' ');
      return series(
        'delivery_problem',
        { account: account === '-' ? undefined : account, kind, severity, subject },
        values,
      );
    }),
    ...(leads ? [series('delivery_watch_leader', { schema: 'public' }, leads)] : []),
  ]);
}

/** Returns a problem that fires from minute `from` until `to`, and is exposed as 0 for ten minutes afterwards. */
export const firing =
  (from: number, to = Number.POSITIVE_INFINITY): Values =>
  minute =>
    minute >= from && minute < to ? 1 : minute >= to && minute < to + 10 ? 0 : undefined;

/** Returns a target that is down from minute `from` until `to`. */
export const down =
  (from: number, to = Number.POSITIVE_INFINITY): Values =>
  minute =>
    minute >= from && minute < to ? 0 : 1;

/** Returns a target that exists from minute `from` until `to`. */
export const known =
  (from: number, to = Number.POSITIVE_INFINITY): Values =>
  minute =>
    minute >= from && minute < to ? 1 : undefined;

export const from = (start: number) => (minute: number) => minute >= start;
export const until = (end: number) => (minute: number) => minute < end;
