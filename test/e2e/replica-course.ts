import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import type { Postgres } from '../support/postgres.ts';
import type { Isolation } from '../support/replica-checks.ts';
import { startStallMeter } from '../support/stall-meter.ts';
import { allDone, allHeld, checkCourse } from './replica-proof.ts';
import { type ReplicaProcess, type SceneOptions, setScene } from './replica-scene.ts';
import { watchReplicas } from './replica-watch.ts';

const now = () => performance.now();
/** Number of messages per second in each account. */
const TRAFFIC = 1;

export interface CourseOptions extends SceneOptions {
  readonly replicas: number;
  /** `quiet`: time without disturbances (ms); `traffic`: duration of one batch of traffic (ms). */
  readonly quiet: number;
  readonly traffic: number;
}

/** Starts replicas with traffic. Each step disturbs them while alerts change and callbacks get stuck. */
export async function startCourse(postgres: Postgres, options: CourseOptions) {
  const scene = await setScene(postgres, options);
  const stalls = startStallMeter();
  afterThisTest(async () => stalls.close());
  for (let left = options.replicas; left > 0; left -= 1) await scene.startReplica();
  const watch = watchReplicas(scene);
  const held = () => allHeld(watch);
  await held();
  // Wait until each account has been read: counting starts with the first read.
  await eventually(async () => {
    const texts = await Promise.all(scene.running().map(({ agent }) => agent.get('/metrics')));
    const read = texts.flatMap(text =>
      [...text.matchAll(/^delivery_up\{account="([^"]+)"\} 1$/gm)].map(([, name]) => name),
    );
    expect(new Set(read).size).toBe(scene.names.length);
  });
  let trafficUntil = scene.addTraffic(TRAFFIC, options.quiet);
  const began = now();
  await sleep(options.quiet);
  const quiet = { from: began, to: now() };
  const isolations: Isolation[] = [];
  const losses: Isolation[] = [];
  let firing = 0;
  let resolved = 0;
  let isFiring = false;

  /**
   * Changes alerts and callbacks, disturbs the replicas, and waits until every alert has been sent and every callback has been
   * cancelled.
   */
  async function step(what: string, disturb: () => Promise<unknown>): Promise<void> {
    const start = now();
    // Every step has traffic.
    if (trafficUntil < Date.now() + options.traffic / 2) trafficUntil = scene.addTraffic(TRAFFIC, options.traffic);
    const changed = scene.stir();
    isFiring = !isFiring;
    if (isFiring) firing += changed;
    else resolved += changed;
    await disturb();
    await held();
    await allDone(scene, { firing, resolved }, isolations);
    const took = ((now() - start) / 1000).toFixed(1);
    process.stdout.write(`${what}: everything held, sent and cancelled after ${took} s\n`);
  }

  const renewals = async ({ agent }: ReplicaProcess) =>
    (await agent.value('delivery_watch_lease_renewals_total', { outcome: 'ok' })) ?? 0;

  const lost = async (replica: ReplicaProcess, during: () => Promise<unknown>, isIsolated = false) => {
    const from = now();
    await during();
    losses.push({ replica: replica.name, from, to: now() });
    if (isIsolated) isolations.push({ replica: replica.name, from, to: now() });
  };

  /** Returns the running process that leads. */
  async function leader(): Promise<ReplicaProcess> {
    const [name] = [...(await watch.holders()).values()].flat();
    const found = scene.running().find(each => each.name === name);
    if (!found) throw new Error('no process leads');
    return found;
  }

  return {
    scene,
    step,
    leader,
    kill: (replica: ReplicaProcess) =>
      lost(replica, async () => {
        expect(await scene.end(replica, 'SIGKILL')).toBe('SIGKILL');
      }),
    async leave(replica: ReplicaProcess) {
      expect(await scene.end(replica, 'SIGTERM')).toBe(0);
    },
    pause: (replica: ReplicaProcess, ms: number) => lost(replica, () => scene.paused(replica, () => sleep(ms))),
    /**
     * Cuts processes off from the database for a time (ms). If the leader is among them and not all are, a standby takes over.
     */
    async cut(some: readonly ReplicaProcess[], ms: number) {
      const isAlone = some.length < scene.running().length;
      async function during(): Promise<void> {
        for (const { link } of some) link.cut();
        await sleep(ms);
        const before = await Promise.all(some.map(renewals));
        for (const { link } of some) link.restore();
        // A process detects the end of the outage, or a takeover, with its next renewal.
        await eventually(async () => {
          for (const [index, replica] of some.entries())
            if (!replica.isEnded) expect(await renewals(replica)).toBeGreaterThan(before[index] ?? 0);
        });
      }
      const done = during();
      await Promise.all(some.map(replica => lost(replica, () => done, isAlone)));
    },
    async end() {
      await sleep(Math.max(0, trafficUntil - Date.now()));
      await checkCourse(scene, watch, stalls, {
        quiet,
        isolations,
        losses,
        async epochs() {
          const [row] = await postgres.query('SELECT epoch FROM delivery_watch.lease', scene.database);
          return new Map(scene.names.map(name => [name, Number(row?.epoch)]));
        },
      });
    },
  };
}
