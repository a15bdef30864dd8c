import { newestLines, storedLines } from '../../auto-cancel/index.ts';
import type { Config } from '../../config/schema.ts';
import { openRecorder } from '../../history/recorder.ts';
import type { AgentView } from '../../http/api/agent.ts';
import { askPeer } from '../../http/peer.ts';
import type { Served, ServedReplicas } from '../../http/served.ts';
import type { AccountHistory } from '../../model/history.ts';
import type { Replicas } from '../../store/store.ts';
import type { AutoCancel } from '../auto-cancel.ts';
import type { Holding } from '../holding.ts';
import type { Base } from '../parts.ts';
import { createMirror, type Mirror } from './mirror.ts';
import { createOthers, type Others } from './others.ts';
import type { KnownSummaries } from './summaries.ts';
import { isoTime } from './values.ts';

/** What is served where replicas share the store: the accounts of all of them. Loaded there alone. */
export interface Shared {
  readonly mirror: Mirror;
  /** What was last told of the accounts that this replica holds. */
  readonly known: KnownSummaries;
  /** Of one configuration. `held`: accounts that this replica has opened. */
  over(config: Config, held: readonly string[]): SharedViews;
}

type OwnServed = Omit<Served, 'reload' | 'reloadFaults' | 'version' | 'clock'>;

export interface SharedViews {
  readonly others: Others;
  /** The journal of all accounts. `own`: of those that this replica holds. */
  journal(own: AutoCancel['journal']): AutoCancel['journal'];
  /** The same, and nothing while the database is away: a page is shown all the same. */
  journalIfThere(own: AutoCancel['journal']): AutoCancel['journal'];
  /** What was recorded of an account that another replica holds; undefined where none has that name. */
  history(account: string): AccountHistory | undefined;
  /** What is served of all accounts. `own`: of those that this replica holds. */
  serve(own: OwnServed): OwnServed;
  /** These are in use from now on. */
  use(): void;
}

type SharedBase = Pick<Base, 'store' | 'clock' | 'log' | 'peerKey'>;

interface HandOver {
  readonly at: number;
  readonly gained: readonly string[];
  readonly lost: readonly string[];
}

/** Explanations that this process requests from other replicas concurrently. */
const MOST_ASKING = 4;

const iso = (at: number) => isoTime(at) ?? '';

function replicasView(
  mirror: Mirror,
  config: Config,
  away: number | undefined,
  last: HandOver | undefined,
): AgentView['replicas'] {
  const { replicas = [], holders = new Map<string, string>() } = mirror.sharing() ?? {};
  const names = config.accounts.map(({ name }) => name);
  const held = names.flatMap(name => {
    const id = mirror.holderOf(name)?.id;
    return id === undefined ? [] : [[name, id] as const];
  });
  return {
    self: mirror.self.id,
    leaseSeconds: mirror.leaseTime / 1000,
    list: replicas.map(({ id, url, since }) => ({
      id,
      url,
      since: iso(since),
      accounts: held.filter(([, holder]) => holder === id).length,
    })),
    holders: Object.fromEntries(held),
    unheld: names.filter(name => !holders.has(name)),
    databaseAway: away === undefined ? null : iso(away),
    lastHandOver: last ? { at: iso(last.at), gained: [...last.gained], lost: [...last.lost] } : null,
  };
}

/** The rows of the history are readable by all: nothing is recorded here. */
const readHistory = (account: string, { store, clock, log }: SharedBase): AccountHistory => ({
  recent: () => [],
  async read(query) {
    const recorder = await openRecorder({ account, store, clock, log });
    return recorder.read(query);
  },
});

export function createShared(base: SharedBase, holding: Holding, replicas: Replicas): Shared {
  const { store, clock, peerKey } = base;
  const mirror = createMirror({ replicas, store, clock });
  const known: KnownSummaries = new WeakMap();
  /** Accounts that this replica held last, and how that came. */
  const was: { held: readonly string[]; handOver: HandOver | undefined } = { held: [], handOver: undefined };

  async function journalOf(others: Others, since: number, most: number, only: string | undefined) {
    await mirror.look();
    const journals = others.names.flatMap(account => {
      const last = others.journalAt(account);
      return (only ?? account) !== account || last === undefined ? [] : [storedLines(store, account, last)];
    });
    return newestLines(journals, since, most);
  }

  /** Requests to other replicas for explanations that have no answer yet. */
  let asking = 0;

  async function askHolders(others: Others, id: string, account: string | undefined, signal: AbortSignal) {
    if (account === undefined) await mirror.lookAtCandidates();
    const names = account === undefined ? others.tracking(id) : others.names.filter(name => name === account);
    const urls = new Set(names.map(name => mirror.holderOf(name)?.url));
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

  async function explain(others: Others, id: string, account: string | undefined, signal: AbortSignal) {
    if (asking >= MOST_ASKING) return 'busy';
    asking += 1;
    try {
      return await askHolders(others, id, account, signal);
    } finally {
      asking -= 1;
    }
  }

  function placesOf(held: ReadonlySet<string>): ServedReplicas {
    return {
      async look(account) {
        await Promise.all([mirror.look(), account === undefined || held.has(account) || mirror.lookInto(account)]);
      },
      placeOf(account) {
        const isHere = held.has(account);
        const holder = isHere ? mirror.self : mirror.holderOf(account);
        return { isHere, holder, last: holder ?? mirror.lastHolderOf(account) ?? mirror.self };
      },
      self: mirror.self,
      awaySince: holding.awaySince,
    };
  }

  function over(config: Config, held: readonly string[]): SharedViews {
    const own = new Set(held);
    const builtAt = clock.now();
    const settings = config.accounts.filter(({ name }) => !own.has(name));
    const others = createOthers({ mirror, settings, clock, isAway: holding.isAway });
    const journal: SharedViews['journal'] =
      ofOwn =>
      async (since, most = Number.POSITIVE_INFINITY, only = undefined) => {
        const lines = [...(await ofOwn(since, most, only)), ...(await journalOf(others, since, most, only))];
        return lines.sort((a, b) => a.at - b.at).slice(-most);
      };
    return {
      others,
      journal,
      journalIfThere:
        ofOwn =>
        async (...which) => {
          try {
            return await journal(ofOwn)(...which);
          } catch (error) {
            if (!holding.isAway()) throw error;
            return [];
          }
        },
      history: account => (others.names.includes(account) ? readHistory(account, base) : undefined),
      serve: served => ({
        ...served,
        accounts: config.accounts.map(({ name }) => name),
        status: () => [...served.status(), ...others.statuses()],
        alerts: () => [...served.alerts(), ...others.alerts()],
        async overview(query) {
          await mirror.look();
          return served.overview(query);
        },
        account(name) {
          const view = served.account(name);
          return view ? { ...view, replica: mirror.self.url } : others.account(name);
        },
        async autoCancel(account) {
          await Promise.all([mirror.look(), mirror.lookAtCandidates()]);
          return served.autoCancel(account);
        },
        async explain(id, account, how) {
          const found = await served.explain(id, account, how);
          if (found.length > 0 || how.isSentOn || (account !== undefined && own.has(account))) return found;
          return explain(others, id, account, how.signal);
        },
        agent: async () => ({
          ...(await served.agent()),
          replicas: replicasView(mirror, config, holding.awaySince(), was.handOver),
        }),
        replicas: placesOf(own),
      }),
      use() {
        const before = new Set(was.held);
        const gained = held.filter(name => !before.has(name));
        const lost = was.held.filter(name => !own.has(name));
        was.held = held;
        if (gained.length + lost.length > 0) was.handOver = { at: builtAt, gained, lost };
      },
    };
  }

  return { mirror, known, over };
}
