export interface Member {
  readonly id: string;
  /** Configured accounts of the replica. It cannot hold other accounts. */
  readonly accounts: ReadonlySet<string>;
}

/** Minimum difference in load for a move. At a difference of one, a move would only reverse the difference. */
const UNFAIR = 2;

/**
 * Returns the member that should hold each account; every replica computes the same result. Loads differ by at most one
 * if all have the same configuration, and as few accounts as possible move. Accounts of holders that are not members
 * are omitted, because the holder may still be running. Accounts missing in `holders` are free.
 */
export function assignAccounts(
  members: readonly Member[],
  holders: ReadonlyMap<string, string>,
): ReadonlyMap<string, string> {
  const shares = members
    .toSorted((a, b) => (a.id < b.id ? -1 : 1))
    .map(({ id, accounts }) => ({ id, accounts, share: [] as string[] }));
  const memberOf = new Map(shares.map(member => [member.id, member]));
  const free: string[] = [];
  // Usually all members share one set.
  const sets = [...new Set(members.map(({ accounts }) => accounts))];
  for (const account of [...new Set(sets.flatMap(accounts => [...accounts]))].sort()) {
    const holder = holders.get(account);
    const member = holder === undefined ? undefined : memberOf.get(holder);
    if (member?.accounts.has(account)) member.share.push(account);
    else if (member || holder === undefined) free.push(account);
  }
  for (const account of free) {
    const able = shares.filter(({ accounts }) => accounts.has(account));
    able.reduce((least, next) => (next.share.length < least.share.length ? next : least)).share.push(account);
  }
  while (moveOne(shares)) {}
  return new Map(shares.flatMap(({ id, share }) => share.map(account => [account, id] as const)));
}

/** Moves an account (newly assigned ones first) from the most to the least loaded member. Returns false if no move helps. */
function moveOne(shares: readonly (Member & { readonly share: string[] })[]): boolean {
  const ranked = shares.toSorted((a, b) => a.share.length - b.share.length);
  for (const from of ranked.toReversed()) {
    for (const to of ranked) {
      if (from.share.length - to.share.length < UNFAIR) break;
      const at = from.share.findLastIndex(account => to.accounts.has(account));
      if (at < 0) continue;
      to.share.push(...from.share.splice(at, 1));
      return true;
    }
  }
  return false;
}
