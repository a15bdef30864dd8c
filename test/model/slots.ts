/** The machines that run the agent. Each starts its process again after an exit, a kill or a failed start. */
import type { Config } from '../../src/config/schema.ts';
import type { Host, HostHooks, Machine, Process } from './agent.ts';
import { startHost } from './agent.ts';
import { MINUTE, SECOND, type Settings } from './settings.ts';
import type { Tally } from './tally.ts';
import type { Time } from './time.ts';

/** A machine that runs at most one process. */
export interface Slot {
  settings: Settings;
  /** The process; undefined while none runs. */
  readonly host: Host | undefined;
  /** Number of further calls of `step` after which the process is killed. */
  deathIn: number;
  /** Time between the end of the process and its next start (ms). */
  downFor: number;
  /** Called once, when the process next ends. */
  onDeath: () => void;
  /** Time at which the process can reach the store again (ms since the world's start). */
  cutOffUntil: number;
}

export type Who = 'holder' | 'other';

export interface Slots {
  readonly all: readonly Slot[];
  /** Returns the machine that has the account open, or else the first machine. */
  holder(): Slot;
  /** Returns the machine that has the account open; for `other`, a different one if possible. */
  slotFor(who: Who): Slot;
  /** Starts all machines. */
  start(): Promise<void>;
  /** Sends SIGTERM, then SIGKILL if the process does not exit in time. */
  terminate(slot: Slot, downFor: number): void;
  /** Returns the open instances of the account. */
  processes(): readonly Process[];
}

export interface SlotsDeps {
  readonly count: number;
  readonly settings: Settings;
  readonly time: Time;
  readonly machine: Machine;
  readonly tally: Tally;
  readonly hooks: Omit<HostHooks, 'begun' | 'step' | 'isCutOff' | 'lost'>;
  configOf(settings: Settings): Config;
  died(process: Process): void;
  found(what: string): void;
}

const MAX_CLOSE = 60 * SECOND;

type Running = { -readonly [Key in keyof Slot]: Slot[Key] } & { readonly name: string; starts: number };

export function createSlots({
  count,
  settings,
  time,
  machine,
  tally,
  configOf,
  died,
  found,
  ...deps
}: SlotsDeps): Slots {
  const all = Array.from(
    { length: count },
    (_, index): Running => ({
      name: `replica-${index}`,
      settings,
      host: undefined,
      starts: 0,
      deathIn: Number.POSITIVE_INFINITY,
      downFor: 0,
      onDeath: () => undefined,
      cutOffUntil: 0,
    }),
  );
  const isHolder = ({ host }: Slot) => host?.account?.isRunning === true && host.account.leaseLeft() > 0;
  const holder = () => all.find(isHolder) ?? (all[0] as Running);

  function die(slot: Running): void {
    const { host, onDeath } = slot;
    if (!host) return;
    host.life.kill();
    Object.assign(slot, { host: undefined, deathIn: Number.POSITIVE_INFINITY, onDeath: () => undefined });
    if (host.account) died(host.account);
    onDeath();
    time.after(slot.downFor, () => void start(slot));
  }

  const slotOf = (host: Host) => all.find(slot => slot.host === host);
  const hooks: HostHooks = {
    ...deps.hooks,
    begun(host) {
      const slot = all.find(({ name }) => host.id.startsWith(name));
      if (slot) slot.host = host;
    },
    step(host) {
      const slot = slotOf(host);
      if (!slot) return;
      slot.deathIn -= 1;
      if (slot.deathIn > 0) return;
      tally.add(host.isUp ? 'killed at work' : 'killed at the start');
      die(slot);
    },
    lost(host) {
      const slot = slotOf(host);
      if (!slot) return;
      tally.add('ended after a takeover');
      slot.downFor = SECOND;
      die(slot);
    },
    isCutOff: host => time.now < (slotOf(host)?.cutOffUntil ?? 0),
  };

  async function start(slot: Running): Promise<void> {
    if (slot.host) return;
    tally.add('starts');
    slot.starts += 1;
    try {
      await startHost(configOf(slot.settings), `${slot.name}-${slot.starts}`, machine, hooks);
    } catch (error) {
      // A store that rejects commits may prevent the agent from starting. The machine then starts it again.
      if (!String(error).includes('StoreError')) found(`failed to start: ${(error as Error).stack}`);
      tally.add('starts that failed');
      slot.downFor = MINUTE;
      die(slot);
    }
  }

  return {
    all,
    holder,
    slotFor: who => (who === 'holder' ? holder() : (all.find(slot => slot !== holder()) ?? holder())),
    async start() {
      for (const slot of all) await start(slot);
    },
    terminate(slot, downFor) {
      const { host } = slot;
      if (!host?.isUp) return;
      const finish = (how: string) => {
        if (slot.host !== host) return;
        tally.add(how);
        slot.downFor = downFor;
        die(slot as Running);
      };
      time.after(MAX_CLOSE, () => finish('killed as it did not stop'));
      host.close().then(
        () => finish('stopped'),
        (error: unknown) => {
          found(`it does not close: ${String(error)}`);
          finish('stopped with an error');
        },
      );
    },
    processes: () => all.flatMap(({ host }) => host?.account ?? []),
  };
}
