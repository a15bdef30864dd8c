import type { Clock } from '../kit/clock.ts';
import { type Group, type Grouping, groupLabels, toNotification } from './group.ts';
import { fingerprintOf, type Notice } from './notice.ts';

type Labels = Readonly<Record<string, string>>;

/** A change of an alert that waits to be sent with its group. */
export interface Waiting {
  readonly account: string;
  readonly key: string;
  readonly at: number;
  readonly notice: Notice;
}

/** A notification that is due, and the changes that it takes. */
export interface Due<W extends Waiting = Waiting> {
  readonly id: string;
  readonly at: number;
  readonly group: Group;
  readonly notices: readonly Notice[];
  readonly taken: readonly W[];
}

/** When a group was told last, milliseconds since the Unix epoch, and the account of the row that says so. */
export interface Told {
  readonly account: string;
  readonly at: number;
}

/** The groups of one receiver: what waits for each, and when it was told last. */
export type Groups<W extends Waiting = Waiting> = ReturnType<typeof createGroups<W>>;

export interface GroupsDeps {
  readonly grouping: Grouping;
  /** All that fires and was sent, or waits to be. */
  readonly firing: () => readonly Notice[];
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
  readonly most: number;
}

interface Gathering<W> {
  readonly labels: Labels;
  readonly waiting: W[];
  readonly dueAt: number;
}

/** Milliseconds between two looks for groups that are to be told again, at most: each goes through all that fires. */
const LOOK_EVERY = 10_000;
/** Notifications made at a time, and changes that they take, about: some 10 ms of work. The others follow in the next pass. */
const MOST_AT_ONCE = 250;
const MOST_CHANGES = 1000;

function forOnePass<W>(groups: readonly [string, Gathering<W>][]): readonly [string, Gathering<W>][] {
  let changes = 0;
  const end = groups.findIndex(([, { waiting }], index) => {
    changes += waiting.length;
    return index > 0 && (index >= MOST_AT_ONCE || changes > MOST_CHANGES);
  });
  return end < 0 ? groups : groups.slice(0, end);
}

/** The changes to tell now: of each alert one begin and its end. What came after that is told next, or it would never be. */
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

export function createGroups<W extends Waiting>({ grouping, firing, clock, most }: GroupsDeps) {
  const gathering = new Map<string, Gathering<W>>();
  const toldAt = new Map<string, Told>();
  let count = 0;
  let lookAt = 0;

  /** What of the labels makes the group, cheaply: all that fires is asked for it. */
  const groupText = (labels: Labels) =>
    JSON.stringify(grouping.by.includes('...') ? labels : grouping.by.map(name => labels[name]));

  function firingByGroup(): Map<string, { readonly labels: Labels; readonly notices: Notice[] }> {
    const groups = new Map<string, Notice[]>();
    for (const notice of firing()) {
      const text = groupText(notice.labels);
      const group = groups.get(text);
      if (group) group.push(notice);
      else groups.set(text, [notice]);
    }
    const byId = [...groups.values()].map(notices => {
      const labels = groupLabels(notices[0]?.labels ?? {}, grouping);
      return [fingerprintOf(labels), { labels, notices }] as const;
    });
    return new Map(byId);
  }

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

  /** Whether so much lies between two times, whichever way the clock was set meanwhile. */
  const isLongBefore = (at: number, now: number) => Math.abs(now - at) >= grouping.repeatEvery;
  /** Whether an unchanged group is to be told again; the agent may have told it before it kept that. */
  const isOld = (id: string, notices: readonly Notice[], now: number) =>
    isLongBefore(toldAt.get(id)?.at ?? Math.max(...notices.map(({ startsAt }) => startsAt)), now);

  return {
    /** Gives what has to be dropped for it, where too much waits. */
    add(waiting: W): W | undefined {
      const labels = groupLabels(waiting.notice.labels, grouping);
      const id = fingerprintOf(labels);
      const left = Math.min(grouping.wait, Math.max(0, waiting.at + grouping.wait - clock.now()));
      const group = gathering.get(id);
      if (group) group.waiting.push(waiting);
      else gathering.set(id, { labels, dueAt: clock.monotonic() + left, waiting: [waiting] });
      count += 1;
      return count > most ? dropOldest() : undefined;
    },
    /** Notifications to send now, but for groups that have one under way. Takes what they tell from what waits. */
    due(isUnderWay: (id: string) => boolean): readonly Due<W>[] {
      const [at, now] = [clock.now(), clock.monotonic()];
      const changed = forOnePass([...gathering].filter(([id, { dueAt }]) => dueAt <= now && !isUnderWay(id)));
      const isLooking = now >= lookAt;
      if (changed.length === 0 && !isLooking) return [];
      const byGroup = firingByGroup();
      const changes = changed.map(([id, group]): Due<W> => {
        const { taken, rest } = firstEpisodes(group.waiting);
        keep(id, group, rest);
        const news = taken.map(({ notice }) => notice);
        return { id, at, taken, ...toNotification(group.labels, news, byGroup.get(id)?.notices ?? [], at) };
      });
      if (!isLooking) return changes;
      const told = new Set(changed.map(([id]) => id));
      const old = [...byGroup].filter(
        ([id, { notices }]) => !told.has(id) && !gathering.has(id) && !isUnderWay(id) && isOld(id, notices, at),
      );
      if (old.length <= MOST_AT_ONCE) lookAt = now + Math.min(LOOK_EVERY, grouping.repeatEvery / 10);
      const repeats = old
        .slice(0, MOST_AT_ONCE)
        .map(
          ([id, { labels, notices }]): Due<W> => ({ id, at, taken: [], ...toNotification(labels, [], notices, at) }),
        );
      return [...changes, ...repeats];
    },
    /** A group was told, and then still fired; undefined: it is over. */
    told(id: string, told: Told | undefined): void {
      if (told === undefined) toldAt.delete(id);
      else toldAt.set(id, told);
    },
    /** Groups that were told, and of which nothing fires any more, with the account of the row that says so. */
    forgettable(isUnderWay: (id: string) => boolean): readonly (readonly [id: string, account: string])[] {
      const now = clock.now();
      const old = [...toldAt].filter(([id, { at }]) => isLongBefore(at, now) && !gathering.has(id) && !isUnderWay(id));
      if (old.length === 0) return [];
      const byGroup = firingByGroup();
      return old.flatMap(([id, { account }]) => (byGroup.has(id) ? [] : [[id, account] as const]));
    },
    /** Another replica goes on with the account: what waits of it, and when its groups were told, is no longer known. */
    letGo(account: string): void {
      for (const [id, group] of gathering) {
        const rest = group.waiting.filter(waiting => waiting.account !== account);
        if (rest.length < group.waiting.length) keep(id, group, rest);
      }
      for (const [id, told] of toldAt) if (told.account === account) toldAt.delete(id);
    },
    all: (): { readonly waiting: readonly W[]; readonly told: ReadonlyMap<string, Told> } => ({
      waiting: [...gathering.values()].flatMap(({ waiting }) => waiting),
      told: toldAt,
    }),
  };
}
