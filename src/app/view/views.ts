import type { Views } from '../../http/served.ts';

/** What the page and the API show of a generation. */
export function createViews(): Views {
  const notBuilt = () => Promise.reject(new Error('not built'));
  return { overview: notBuilt, account: () => undefined, history: notBuilt, autoCancel: notBuilt, agent: notBuilt };
}
