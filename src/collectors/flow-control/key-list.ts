import { createGlob } from '../../kit/glob.ts';
import type { FlowControlEntry } from '../../model/message.ts';
import { largestOf, OTHER } from '../cap.ts';

interface Selection {
  readonly include: readonly string[];
  readonly exclude: readonly string[];
  readonly maxSeries: number;
  readonly watch: readonly string[];
}

function keyFilter({ include, exclude }: Selection): (key: string) => boolean {
  const [included, excluded] = [include.map(createGlob), exclude.map(createGlob)];
  return key =>
    (included.length === 0 || included.some(matches => matches(key))) && !excluded.some(matches => matches(key));
}

const sizeOf = ({ waitlistSize = 0 }: FlowControlEntry) => waitlistSize;

/** Chooses the keys of a list to show. `rows`: by key; `rejected`: number of unreadable rows. */
export function chooseKeys(rows: ReadonlyMap<string, FlowControlEntry>, rejected: number, selection: Selection) {
  const watched = new Set(selection.watch);
  const isSelected = keyFilter(selection);
  const wanted = [...rows.values()].filter(({ key }) => watched.has(key) || isSelected(key));
  // A key named `__other__` is merged into the remainder, because the two would be indistinguishable.
  const ranked = wanted.filter(({ key }) => key !== OTHER && !watched.has(key));
  const sizes = ranked.map(entry => [entry.key, sizeOf(entry)] as const);
  const largest = largestOf(sizes, Math.max(0, selection.maxSeries - watched.size));
  const isShown = ({ key }: FlowControlEntry) => largest.has(key) || (watched.has(key) && key !== OTHER);
  const shown = wanted.filter(isShown);
  const beyondCapWaiting = wanted.reduce((sum, each) => (isShown(each) ? sum : sum + sizeOf(each)), 0);
  return { keys: rows.size + rejected, shown, beyondCap: wanted.length - shown.length, beyondCapWaiting };
}
