import { Agent, emptyStore, type Reported } from './agent.ts';
import type { Values } from './course.ts';
import { createService, START } from './service.ts';
import { type Situation, within } from './situation.ts';

/** A time for which a problem was reported. `to`: undefined if it lasted until the end of the situation. */
export interface Episode extends Reported {
  readonly from: number;
  to?: number;
}

const MINUTE = 60_000;

function createClock(offset: Values) {
  let [minute, bornAt] = [0, 0];
  return {
    now: () => START + minute * MINUTE + 1000 * (offset(minute) ?? 0),
    monotonic: () => (minute - bornAt) * MINUTE,
    sleep: async () => undefined,
    reach(to: number) {
      minute = to;
    },
    /** Resets the monotonic clock, as in a new process. */
    restart() {
      bornAt = minute;
    },
  };
}

/** Collects the episodes of the problems reported each minute. */
function createEpisodes() {
  const all: Episode[] = [];
  const open = new Map<string, Episode>();
  return {
    all,
    add(minute: number, problems: readonly Reported[]): void {
      const now = new Map(
        problems.map(each => [JSON.stringify([each.severity, each.kind, each.subject]), each] as const),
      );
      for (const [key, episode] of open) {
        if (now.has(key)) continue;
        episode.to = minute;
        open.delete(key);
      }
      for (const [key, problem] of now) {
        if (open.has(key)) continue;
        const episode = { ...problem, from: minute };
        open.set(key, episode);
        all.push(episode);
      }
    },
  };
}

/**
 * Plays a situation minute by minute in simulated time: reads the course of the account as facts of its collectors, which one or
 * more successive processes of the agent evaluate. Returns the reported problems in order of their start.
 */
export async function play(situation: Situation): Promise<readonly Episode[]> {
  const { input, minutes, down, lost = [], restored = [], catchingUp } = situation;
  const clock = createClock(situation.clock ?? (() => 0));
  const service = createService(input);
  const episodes = createEpisodes();
  let kept = emptyStore();
  let agent: Agent | undefined;
  let [lastRead, isNewStore] = [0, false];
  const [back, caughtUp] = catchingUp ?? [0, 0];
  for (let minute = 0; minute <= minutes; minute += 1) {
    clock.reach(minute);
    if (within(down, minute)) {
      agent = undefined;
      continue;
    }
    if (!agent || lost.includes(minute)) {
      if (lost.includes(minute)) [kept, isNewStore] = [emptyStore(), true];
      if (restored.includes(minute)) kept.committed = service(minute);
      clock.restart();
      agent = await Agent.start(situation, kept, clock, minute);
    } else {
      const isWhole = minute < back || minute >= caughtUp;
      const share = (minute - back) / (caughtUp - back);
      const readTo = isWhole ? minute : Math.floor(lastRead + share * (caughtUp - lastRead));
      agent.read(minute, service(readTo, isNewStore), Math.max(0, minute - 1), isWhole);
      isNewStore = false;
      if (isWhole) lastRead = minute;
    }
    await agent.evaluate(minute);
    episodes.add(minute, agent.problems);
  }
  return episodes.all;
}

/** Formats an episode: `critical messages_failing 62–92`. */
export const lineOf = ({ kind, severity, subject, from, to }: Episode): string =>
  `${severity} ${kind}${subject === undefined ? '' : ` (${subject})`} ${from}–${to ?? ''}`;
