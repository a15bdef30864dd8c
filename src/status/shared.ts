import type { AutoCancel } from '../auto-cancel/accounts.ts';
import { newestLines, storedLines } from '../auto-cancel/index.ts';
import { openRecorder } from '../history/recorder.ts';
import { askPeer, type PeerKey } from '../http/peer.ts';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Change } from '../model/change.ts';
import type { AccountHistory } from '../model/history.ts';
import type { Holding } from '../replicas/holding.ts';
import type { Replicas, Store } from '../store/store.ts';
import type { StatusSettings } from './account.ts';
import type { AgentView } from './api/agent.ts';
import { type FromReplica, NOT_SHARED } from './api/parts.ts';
import { createHolders, type Holders } from './holders.ts';
import { createOthers, type Others } from './others.ts';
import type { Served } from './served.ts';
import { createStatusRows, type StatusSources, statusChanges } from './status-row.ts';
import { isoTime } from './values.ts';

/** What is served where replicas share the store: the accounts of all of them. Loaded only there. */
export interface Shared {
  /** For the accounts of one configuration. `held`: those that this replica has opened. `publicUrl`: where browsers reach it. */
  over(accounts: readonly StatusSettings[], publicUrl: string | null, held: readonly string[]): SharedViews;
}

/** Everything that the port serves of one state. */
export type StateServed = Omit<Served, 'reload' | 'reloadFaults' | 'version' | 'clock' | 'exposition'>;

export interface SharedViews {
  readonly others: Others;
  readonly holders: Pick<Holders, 'sharing'>;
  /** This replica, as the holder of its accounts. */
  readonly self: FromReplica;
  /** The same for an account that it has opened, or failed to open: then no replica may hold it. */
  placeOf(account: string): FromReplica;
  /** Reads the journal of all accounts. `own`: that of the accounts that this replica holds. */
  journal(own: AutoCancel['journal']): AutoCancel['journal'];
  /** The same, but empty while the database is unavailable: pages are still shown. */
  journalIfThere(own: AutoCancel['journal']): AutoCancel['journal'];
  /** History of an account that another replica holds; undefined for any other name. */
  history(account: string): AccountHistory | undefined;
  /** Serves all accounts. `own` serves those that this replica holds. */
  serve(own: StateServed): StateServed;
  /** Status rows to commit with each save, by account. */
  changes(of: StatusSources): Promise<ReadonlyMap<string, readonly Change[]>>;
  /** Makes these the views in use. */
  use(): void;
}

interface SharedBase {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly peerKey: PeerKey | undefined;
}

interface Handover {
  readonly at: number;
  readonly gained: readonly string[];
  readonly lost: readonly string[];
}

/** Explanations that this process requests from other replicas concurrently. */
const MAX_ASKING = 4;

const iso = (at: number) => isoTime(at) ?? '';

interface ReplicasInput {
  readonly holders: Holders;
  readonly names: readonly string[];
  readonly away: number | undefined;
  readonly last: Handover | undefined;
  /** By the id of the replica. */
  readonly publicUrls: ReadonlyMap<string | null, string | null>;
}

function replicasView({ holders, names, away, last, publicUrls }: ReplicasInput): AgentView['replicas'] {
  const sharing = holders.sharing();
  const held = names.flatMap(name => {
    const id = holders.holderOf(name)?.id;
    return id === undefined ? [] : [[name, id] as const];
  });
  return {
    self: holders.self.id,
    leaseSeconds: holders.leaseTime / 1000,
    list: (sharing?.replicas ?? []).map(({ id, url, since }) => ({
      id,
      url,
      publicUrl: publicUrls.get(id) ?? null,
      since: iso(since),
      accounts: held.filter(([, holder]) => holder === id).length,
    })),
    holders: Object.fromEntries(held),
    unheld: names.filter(name => !sharing?.holders.has(name)),
    databaseAway: away === undefined ? null : iso(away),
    lastHandOver: last ? { at: iso(last.at), gained: [...last.gained], lost: [...last.lost] } : null,
  };
}

/** Reads recorded samples from the store; every replica can. */
const storedHistory = (account: string, { store, clock, log }: SharedBase): AccountHistory => ({
  recent: () => [],
  async read(query) {
    const recorder = await openRecorder({ account, store, clock, log });
    return recorder.read(query);
  },
});

export function createShared(base: SharedBase, holding: Holding, replicas: Replicas): Shared {
  const { store, clock, peerKey } = base;
  const holders = createHolders(replicas, clock);
  const stored = createStatusRows(store, clock);
  const { self } = replicas;
  /** Accounts that this replica held last, and the last change of them. */
  const was: { held: readonly string[]; handover: Handover | undefined } = { held: [], handover: undefined };
  /** Explanations that other replicas have not answered yet. */
  let asking = 0;

  async function askHolders(names: readonly string[], id: string, account: string | undefined, signal: AbortSignal) {
    const urls = new Set(names.map(name => holders.holderOf(name)?.url));
    const answers = await Promise.allSettled(
      [...urls].map(async url => {
        if (url === undefined || !peerKey) throw new Error('no replica holds the account');
        return askPeer({ url, id, account, isSentOn: true, isLocal: false }, peerKey, signal);
      }),
    );
    signal.throwIfAborted();
    const found = answers.flatMap(answer => (answer.status === 'fulfilled' ? answer.value : []));
    return found.length === 0 && answers.some(({ status }) => status === 'rejected') ? 'no_agent' : found;
  }

  async function explain(...which: Parameters<typeof askHolders>) {
    if (asking >= MAX_ASKING) return 'busy';
    asking += 1;
    try {
      return await askHolders(...which);
    } finally {
      asking -= 1;
    }
  }

  function over(accounts: readonly StatusSettings[], publicUrl: string | null, held: readonly string[]): SharedViews {
    const names = accounts.map(({ name }) => name);
    const own = new Set(held);
    const builtAt = clock.now();
    const settings = accounts.filter(({ name }) => !own.has(name));
    const others = createOthers({ stored, holders, settings, clock, isAway: holding.isAway });
    const here = { replica: self.url, publicUrl, holder: self.id, asOf: null } as const;
    const publicUrls = () =>
      new Map([here, ...others.rows().map(({ row }) => row)].map(of => [of.holder, of.publicUrl]));
    const placeOf = (account: string) => (holders.holderOf(account) ? here : NOT_SHARED);
    const journal: SharedViews['journal'] =
      ofOwn =>
      async (since, most = Number.POSITIVE_INFINITY, only = undefined) => {
        await stored.refresh();
        const journals = others.names.flatMap(account => {
          const last = others.journalAt(account);
          return (only ?? account) !== account || last === undefined ? [] : [storedLines(store, account, last)];
        });
        const lines = [...(await ofOwn(since, most, only)), ...(await newestLines(journals, since, most))];
        return lines.sort((a, b) => a.at - b.at).slice(-most);
      };
    return {
      others,
      holders,
      self: here,
      placeOf,
      journal,
      journalIfThere:
        ofOwn =>
        (...which) =>
          journal(ofOwn)(...which).catch(error => {
            if (!holding.isAway()) throw error;
            return [];
          }),
      history: account => (others.names.includes(account) ? storedHistory(account, base) : undefined),
      serve: served => ({
        ...served,
        accounts: names,
        status: () => [...served.status(), ...others.statuses()],
        alerts: () => [...served.alerts(), ...others.alerts()],
        async overview(query) {
          await stored.refresh();
          return served.overview(query);
        },
        account(name) {
          const view = served.account(name);
          return view ? { ...view, ...placeOf(name) } : others.account(name);
        },
        async autoCancel(account) {
          await stored.refresh();
          return served.autoCancel(account);
        },
        async explain(id, account, how) {
          const found = await served.explain(id, account, how);
          const wanted = others.names.filter(name => name === (account ?? name));
          if (found.length > 0 || how.isSentOn || wanted.length === 0) return found;
          return explain(wanted, id, account, how.signal);
        },
        agent: async () => ({
          ...(await served.agent()),
          replicas: replicasView({
            holders,
            names,
            away: holding.awaySince(),
            last: was.handover,
            publicUrls: publicUrls(),
          }),
        }),
        replicas: {
          refresh: stored.refresh,
          placeOf(account) {
            const isHere = own.has(account);
            const holder = isHere ? self : holders.holderOf(account);
            return { isHere, holder, last: holder ?? holders.lastHolderOf(account) ?? self };
          },
          self,
          awaySince: holding.awaySince,
        },
      }),
      async changes(of) {
        const at = holders.now();
        return at === undefined ? new Map() : statusChanges(of, { at, publicUrl });
      },
      use() {
        const before = new Set(was.held);
        const gained = held.filter(name => !before.has(name));
        const lost = was.held.filter(name => !own.has(name));
        was.held = held;
        if (gained.length + lost.length > 0) was.handover = { at: builtAt, gained, lost };
      },
    };
  }

  return { over };
}
