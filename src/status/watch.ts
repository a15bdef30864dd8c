/**
 * Gives a function that tells whether something may have changed since it was asked last, or since now. It costs a sum over the
 * accounts: what is known of one changes when one of its rounds ends.
 */
export function watchRounds(accounts: readonly { roundsEnded(): number }[]): () => boolean {
  const ended = () => accounts.reduce((sum, account) => sum + account.roundsEnded(), 0);
  let before = ended();
  return () => {
    const now = ended();
    const isSame = now === before;
    before = now;
    return !isSame;
  };
}
