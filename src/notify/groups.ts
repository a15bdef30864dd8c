import type { Clock } from '../kit/clock.ts';
import { firstWithin, type Group, type Grouping, groupLabels, toNotification } from './group.ts';
import { fingerprintOf, type Labels, type Notice } from './notice.ts';

/** A change of an alert, waiting to be sent with its group. */
export interface Waiting {
  readonly account: string;
  readonly key: string;
  readonly at: number;
  readonly notice: Notice;
}

export interface Due<W extends Waiting = Waiting> {
  readonly id: string;
  readonly at: number;
  readonly group: Group;
  readonly notices: readonly Notice[];
  readonly taken: readonly W[];
}

/** Time of a group's last notification (ms since the Unix epoch). */
export interface LastNotification {
  readonly at: number;
  readonly isRefused?: boolean;
}

/** Groups of one receiver: waiting changes and time of the last notification of each. */
export type Groups<W extends Waiting = Waiting> = ReturnType<typeof createGroups<W>>;

export interface GroupsDeps {
  readonly grouping: Grouping;
  /** All firing alerts that were sent or are waiting to be sent. */
  readonly firing: () => readonly Notice[];
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly maxWaiting: number;
}

interface Gathering<W> {
  readonly labels: Labels;
  readonly waiting: W[];
  readonly dueAt: number;
}

/** Maximum interval between checks for repetitions (ms). Each check iterates over all firing alerts. */
const CHECK_EVERY = 10_000;
/** Approximate maximum number of notifications and changes per pass, about 10 ms of work. The rest follows in the next pass. */
const MAX_AT_ONCE = 250;
const MAX_CHANGES = 1000;

/** Selects one episode per alert for this notification. Later episodes wait for the next one, so none is lost. */
function firstEpisodes<W extends Waiting>(waiting: readonly W[]): { readonly taken: W[]; readonly rest: W[] } {
  const episodes = new Map<string, number>();
  const taken: W[] = [];
  const rest: W[] = [];
  for (const one of waiting) {
    const { labels, startsAt } = one.notice;
    const fingerprint = fingerprintOf(labels);
    const episode = episodes.get(fingerprint) ?? startsAt;
    episodes.set(fingerprint, episode);
    (episode === startsAt ? taken : rest).push(one);
  }
  return { taken, rest };
}

function firingByGroup(firing: readonly Notice[], grouping: Grouping) {
  // This text is cheaper than a fingerprint, which only one notice of each group needs.
  const textOf = ({ labels }: Notice) =>
    JSON.stringify(grouping.by.includes('...') ? labels : grouping.by.map(name => labels[name]));
  return new Map(
    [...Map.groupBy(firing, textOf).values()].map(notices => {
      const labels = groupLabels(notices[0]?.labels ?? {}, grouping);
      return [fingerprintOf(labels), { labels, notices }] as const;
    }),
  );
}

const newestStart = (notices: readonly Notice[]) =>
  notices.reduce((newest, { startsAt }) => Math.max(newest, startsAt), 0);

export function createGroups<W extends Waiting>({ grouping, firing, clock, maxWaiting }: GroupsDeps) {
  const gathering = new Map<string, Gathering<W>>();
  const lastNotifications = new Map<string, LastNotification>();
  let count = 0;
  let nextCheckAt = 0;

  function keep(id: string, { labels, dueAt, waiting }: Gathering<W>, rest: W[]): void {
    count -= waiting.length - rest.length;
    if (rest.length === 0) gathering.delete(id);
    else gathering.set(id, { labels, dueAt, waiting: rest });
  }

  function dropOldest(): W | undefined {
    const [first] = gathering;
    if (!first) return undefined;
    const [id, group] = first;
    keep(id, group, group.waiting.slice(1));
    return group.waiting[0];
  }

  /** Returns whether two times are at least the repeat interval apart. The clock may have been set back. */
  const isLongBefore = (at: number, now: number) => Math.abs(now - at) >= grouping.repeatEvery;
  /** Returns whether an unchanged group must be repeated. Without a last notification, the start of the newest alert counts. */
  const isOld = (id: string, notices: readonly Notice[], now: number) =>
    isLongBefore(lastNotifications.get(id)?.at ?? newestStart(notices), now);

  return {
    /** Adds a change. If too many are waiting, removes and returns the oldest one, which the caller must drop. */
    add(waiting: W): W | undefined {
      const labels = groupLabels(waiting.notice.labels, grouping);
      const id = fingerprintOf(labels);
      const left = Math.min(grouping.wait, Math.max(0, waiting.at + grouping.wait - clock.now()));
      const group = gathering.get(id);
      if (group) group.waiting.push(waiting);
      else gathering.set(id, { labels, dueAt: clock.monotonic() + left, waiting: [waiting] });
      count += 1;
      return count > maxWaiting ? dropOldest() : undefined;
    },
    /** Removes and returns due notifications. Skips groups with a queued request. */
    due(isQueued: (id: string) => boolean): readonly Due<W>[] {
      const [at, now] = [clock.now(), clock.monotonic()];
      const ready = [...gathering].filter(([id, { dueAt }]) => dueAt <= now && !isQueued(id));
      const changed = firstWithin(ready, MAX_AT_ONCE, MAX_CHANGES, ([, { waiting }]) => waiting.length);
      const isChecking = now >= nextCheckAt;
      if (changed.length === 0 && !isChecking) return [];
      const byGroup = firingByGroup(firing(), grouping);
      const changes = changed.map(([id, group]): Due<W> => {
        const { taken, rest } = firstEpisodes(group.waiting);
        keep(id, group, rest);
        const news = taken.map(({ notice }) => notice);
        return { id, at, taken, ...toNotification(group.labels, news, byGroup.get(id)?.notices ?? [], at) };
      });
      if (!isChecking) return changes;
      const changedIds = new Set(changed.map(([id]) => id));
      const old = [...byGroup].filter(
        ([id, { notices }]) => !changedIds.has(id) && !gathering.has(id) && !isQueued(id) && isOld(id, notices, at),
      );
      if (old.length <= MAX_AT_ONCE) nextCheckAt = now + Math.min(CHECK_EVERY, grouping.repeatEvery / 10);
      const repeats = old.slice(0, MAX_AT_ONCE).map(([id, { labels, notices }]): Due<W> => {
        return { id, at, taken: [], ...toNotification(labels, [], notices, at) };
      });
      return [...changes, ...repeats];
    },
    /** Records the last notification of a group. `last`: undefined if all its alerts are resolved. */
    setLastNotification(id: string, last: LastNotification | undefined): void {
      if (last === undefined) lastNotifications.delete(id);
      else lastNotifications.set(id, last);
    },
    /** Returns groups without firing alerts and without a notification for `repeatEvery`. */
    obsolete(isQueued: (id: string) => boolean): readonly string[] {
      const now = clock.now();
      const old = [...lastNotifications].filter(
        ([id, { at }]) => isLongBefore(at, now) && !gathering.has(id) && !isQueued(id),
      );
      if (old.length === 0) return [];
      const byGroup = firingByGroup(firing(), grouping);
      return old.flatMap(([id]) => (byGroup.has(id) ? [] : [id]));
    },
    all: (): { readonly waiting: readonly W[]; readonly lastNotifications: ReadonlyMap<string, LastNotification> } => ({
      waiting: [...gathering.values()].flatMap(({ waiting }) => waiting),
      lastNotifications,
    }),
  };
}
