/** What one account has of one rule: alerts that are sent, those of them that stand for others, and series that are left out. */
export interface Share {
  readonly sent: number;
  readonly sentOverflow: number;
  readonly leftOut: number;
}

/** How many alerts of each rule are sent, over all accounts: a thousand accounts may fire at once. */
export interface SendLimits {
  /** How many more may be sent. */
  room(rule: string): { readonly alerts: number; readonly overflow: number };
  /** Takes what an account has of every rule now; before its first evaluation, what an earlier process left. */
  take(account: string, shares: ReadonlyMap<string, Share>, isEvaluated: boolean): void;
  /** Series that no sent alert stands for; undefined while an account was not evaluated yet. */
  leftOut(rule: string): number | undefined;
}

const NONE: Share = { sent: 0, sentOverflow: 0, leftOut: 0 };

/** `limits`: by rule. `accounts`: names of all that will be evaluated. */
export function createSendLimits(limits: ReadonlyMap<string, number>, accounts: readonly string[]): SendLimits {
  const totals = new Map<string, Share>();
  const shares = new Map<string, ReadonlyMap<string, Share>>();
  const missing = new Set(accounts);

  function add(rule: string, share: Share, sign: 1 | -1): void {
    const { sent, sentOverflow, leftOut } = totals.get(rule) ?? NONE;
    totals.set(rule, {
      sent: sent + sign * share.sent,
      sentOverflow: sentOverflow + sign * share.sentOverflow,
      leftOut: leftOut + sign * share.leftOut,
    });
  }

  return {
    room(rule) {
      // A rule that is gone has nothing to send.
      const limit = limits.get(rule) ?? 0;
      const { sent, sentOverflow } = totals.get(rule) ?? NONE;
      return { alerts: limit - sent, overflow: limit - sentOverflow };
    },
    take(account, next, isEvaluated) {
      if (isEvaluated) missing.delete(account);
      for (const [rule, share] of shares.get(account) ?? []) add(rule, share, -1);
      for (const [rule, share] of next) add(rule, share, 1);
      shares.set(account, next);
    },
    leftOut(rule) {
      return missing.size > 0 ? undefined : (totals.get(rule)?.leftOut ?? 0);
    },
  };
}
