import type { AlertState } from '../../alerts/state.ts';

/** One time for which an alert fires. Milliseconds since the Unix epoch. */
export interface Firing {
  /** Labels beside the alert's name and account, where it has any. */
  readonly labels?: Readonly<Record<string, string>> | undefined;
  readonly from: number;
  /** Undefined: it still fires at the end of the range. */
  readonly to: number | undefined;
  /** The highest value by which it was judged. */
  readonly most: number;
}

/** What fired, by the states of alerts as they are told, in order. */
export interface Firings {
  /** `id`: tells alerts apart. `value`: by which it holds now; undefined: it does not. */
  note(id: string, state: AlertState | undefined, value: number | undefined, labels?: Firing['labels']): void;
  /** Those that are kept, ordered by when they began. */
  all(): readonly Firing[];
  /** How many more there were. */
  leftOut(): number;
}

/** Firings that are over and kept, the first ones; of further ones only their number is known. */
export const MOST_FIRINGS = 10_000;

export function createFirings(): Firings {
  const over: Firing[] = [];
  let leftOut = 0;
  const open = new Map<string, { from: number; most: number; labels: Firing['labels'] }>();

  return {
    note(id, state, value, labels) {
      const known = open.get(id);
      if (known && value !== undefined) known.most = Math.max(known.most, value);
      if (state?.phase === 'firing' && !known) {
        open.set(id, { from: state.startsAt, most: value ?? Number.NEGATIVE_INFINITY, labels });
      } else if (known && state?.phase !== 'firing') {
        open.delete(id);
        const to = state?.phase === 'resolved' ? state.endsAt : known.from;
        if (over.length < MOST_FIRINGS) over.push({ ...known, to });
        else leftOut += 1;
      }
    },
    all: () =>
      [...over, ...[...open.values()].map(each => ({ ...each, to: undefined }))].sort((a, b) => a.from - b.from),
    leftOut: () => leftOut,
  };
}
