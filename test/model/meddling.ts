/** Triggers events at a chosen place in a cancel or an order, for example between an intent and its DELETE. */
import type { Time } from './time.ts';

export const PLACES = [
  'looking',
  'intent committed',
  'connecting',
  'sent',
  'approval requested',
  'order executed',
] as const;
export type Place = (typeof PLACES)[number];

export interface Meddling<What> {
  /** Place that triggers `what`. */
  readonly place: Place;
  /** Number of times that reaching the place does not trigger `what`, before it does. */
  readonly skip: number;
  /** Delay of `what` after the place is reached (ms). */
  readonly soon: number;
  /** How long the cancel waits at the place (ms). */
  readonly hold: number;
  /** Whether the response of a commit is lost: the commit rejects although its rows are written. */
  readonly isLost: boolean;
  readonly what: What;
}

export interface Meddlers<What> {
  arm(meddling: Meddling<What>): void;
  /** Called when a cancel or an order reaches this place. */
  reach(place: Place): Pick<Meddling<What>, 'hold' | 'isLost'>;
}

const UNDISTURBED = { hold: 0, isLost: false };

export function createMeddlers<What>(time: Time, happen: (what: What, place: Place) => void): Meddlers<What> {
  const armed: { meddling: Meddling<What>; left: number }[] = [];
  return {
    arm: meddling => void armed.push({ meddling, left: meddling.skip }),
    reach(place) {
      const index = armed.findIndex(({ meddling }) => meddling.place === place);
      const next = armed[index];
      if (!next) return UNDISTURBED;
      next.left -= 1;
      if (next.left >= 0) return UNDISTURBED;
      armed.splice(index, 1);
      const { what, soon } = next.meddling;
      if (soon === 0) happen(what, place);
      else time.after(soon, () => happen(what, place));
      return next.meddling;
    },
  };
}
