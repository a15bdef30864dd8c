import type { AutoCancel } from '../auto-cancel/accounts.ts';
import { newestLines, storedLines } from '../auto-cancel/journal.ts';
import { openRecorder } from '../history/recorder.ts';
import { type PeerKey, requestPeer } from '../http/peer.ts';
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
import { createOtherAccounts, type OtherAccounts } from './others.ts';
import type { Served } from './served.ts';
import { createStatusRows, type StatusRows, type StatusSources, statusChanges } from './status-row.ts';
import { iso, isoTime } from './values.ts';

/** Serves the accounts of all replicas that share the store. Loaded only if the store is shared. */
export type Shared = ReturnType<typeof createShared>;

export type SharedViews = ReturnType<Shared['over']>;

export type StateServed = Omit<Served, 'reload' | 'reloadErrors' | 'version' | 'clock' | 'exposition'>;

interface SharedBase {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly peerKey: PeerKey | undefined;
}

type LastHandover = NonNullable<AgentView['replicas']>['lastHandOver'];

/** Maximum number of explanations that are requested from other replicas concurrently. */
const MAX_ASKING = 4;

/** Reads the history of another replica's account from the store. */
const storedHistory = (account: string, { store, clock, log }: SharedBase): AccountHistory => ({
  recent: () => [],
  async read(query) {
    const recorder = await openRecorder({ account, store, clock, log });
    return recorder.read(query);
  },
});

function createAsking(holders: Holders, peerKey: PeerKey | undefined) {
  let asking = 0;

  async function ask(names: readonly string[], id: string, account: string | undefined, signal: AbortSignal) {
    const urls = new Set(names.map(name => holders.holderOf(name)?.url));
    const answers = await Promise.allSettled(
      [...urls].map(async url => {
        if (url === undefined || !peerKey) throw new Error('no replica holds the account');
        return requestPeer({ url, key: peerKey, id, account, isSentOn: true, isLocal: false }, signal);
      }),
    );
    signal.throwIfAborted();
    const found = answers.flatMap(answer => (answer.status === 'fulfilled' ? answer.value : []));
    return found.length === 0 && answers.some(({ status }) => status === 'rejected') ? 'no_agent' : found;
  }

  return async (...which: Parameters<typeof ask>) => {
    if (asking >= MAX_ASKING) return 'busy';
    asking += 1;
    return ask(...which).finally(() => {
      asking -= 1;
    });
  };
}

type Here = FromReplica & { readonly asOf: null };

interface Parts {
  readonly others: OtherAccounts;
  readonly here: Here;
  readonly held: ReadonlySet<string>;
  readonly holders: Holders;
  readonly stored: StatusRows;
  readonly explain: ReturnType<typeof createAsking>;
  readonly holding: Holding;
  readonly handover: () => LastHandover;
}

function replicasView(names: readonly string[], parts: Parts): AgentView['replicas'] {
  const { holders, others, here, holding, handover } = parts;
  const sharing = holders.sharing();
  const publicUrls = new Map([here, ...others.rows().map(({ row }) => row)].map(of => [of.holder, of.publicUrl]));
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
      since: isoTime(since) ?? '',
      accounts: held.filter(([, holder]) => holder === id).length,
    })),
    holders: Object.fromEntries(held),
    unheld: names.filter(name => !sharing?.holders.has(name)),
    databaseAway: isoTime(holding.unavailableSince()),
    lastHandOver: handover(),
  };
}

/** Serves all accounts. `own` serves the accounts of this replica, `others` the remaining ones. */
function serveAll(own: StateServed, parts: Parts): StateServed {
  const { others, here, held, holders, stored, explain, holding } = parts;
  return {
    ...own,
    status: () => [...own.status(), ...others.statuses()],
    alerts: () => [...own.alerts(), ...others.alerts()],
    async overview(query) {
      await stored.refresh();
      return own.overview(query);
    },
    async report() {
      await stored.refresh();
      return own.report();
    },
    account(name) {
      const view = own.account(name);
      return view ? { ...view, ...(holders.holderOf(name) ? here : NOT_SHARED) } : others.account(name);
    },
    async autoCancel(account) {
      await stored.refresh();
      return own.autoCancel(account);
    },
    async explain(id, account, how) {
      const found = await own.explain(id, account, how);
      const wanted = others.names.filter(name => name === (account ?? name));
      if (found.length > 0 || how.isSentOn || wanted.length === 0) return found;
      return explain(wanted, id, account, how.signal);
    },
    agent: async () => ({ ...(await own.agent()), replicas: replicasView(own.accounts, parts) }),
    replicas: {
      refresh: stored.refresh,
      placeOf(account) {
        const isHere = held.has(account);
        const holder = isHere ? holders.self : holders.holderOf(account);
        return { isHere, holder, last: holder ?? holders.lastHolderOf(account) ?? holders.self };
      },
      self: holders.self,
      unavailableSince: holding.unavailableSince,
    },
  };
}

export function createShared(base: SharedBase, holding: Holding, replicas: Replicas) {
  const { store, clock, peerKey } = base;
  const { self } = replicas;
  const holders = createHolders(replicas, clock);
  const stored = createStatusRows(store, clock);
  const explain = createAsking(holders, peerKey);
  /** Accounts that this replica held before, and the last handover. */
  const was: { held: readonly string[]; handover: LastHandover } = { held: [], handover: null };

  /** Creates the views of a configuration. `held`: accounts that this replica has opened. `publicUrl`: its URL for browsers. */
  function over(accounts: readonly StatusSettings[], publicUrl: string | null, held: readonly string[]) {
    const own = new Set(held);
    const builtAt = iso(clock.now());
    const settings = accounts.filter(({ name }) => !own.has(name));
    const others = createOtherAccounts({ stored, holders, settings, clock, isUnavailable: holding.isUnavailable });
    const here: Here = { replica: self.url, publicUrl, holder: self.id, asOf: null };
    return {
      others,
      holders,
      self: here,
      /**
       * Returns the holder of an account that this replica has opened or failed to open. After a failure, it is possible that
       * no replica holds it.
       */
      placeOf: (account: string): FromReplica => (holders.holderOf(account) ? here : NOT_SHARED),
      /** Returns a function that reads the journals of all accounts. `ofOwn` reads the journals of this replica's accounts. */
      journal:
        (ofOwn: AutoCancel['journal']): AutoCancel['journal'] =>
        async (since, most = Number.POSITIVE_INFINITY, only = undefined) => {
          await stored.refresh();
          const journals = others.names.flatMap(account => {
            const last = others.journalAt(account);
            return (only ?? account) !== account || last === undefined ? [] : [storedLines(store, account, last)];
          });
          const lines = [...(await ofOwn(since, most, only)), ...(await newestLines(journals, since, most))];
          return lines.sort((a, b) => a.at - b.at).slice(-most);
        },
      /** Wraps a function that reads a journal. While the database is unavailable, it returns no lines, so pages still work. */
      ifThere:
        (journal: AutoCancel['journal']): AutoCancel['journal'] =>
        (...which) =>
          journal(...which).catch(error => {
            if (!holding.isUnavailable()) throw error;
            return [];
          }),
      /** Returns the history of an account that this replica does not hold; undefined for any other name. */
      history: (account: string) => (others.names.includes(account) ? storedHistory(account, base) : undefined),
      serve: (served: StateServed) =>
        serveAll(served, { others, here, held: own, holders, stored, explain, holding, handover: () => was.handover }),
      async changes(of: StatusSources): Promise<ReadonlyMap<string, readonly Change[]>> {
        const at = holders.now();
        return at === undefined ? new Map() : statusChanges(of, { at, publicUrl });
      },
      /** Makes these views the current ones and records the handover. */
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
