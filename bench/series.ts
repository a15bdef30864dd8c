import type { Family, Sample, Source } from '../src/metrics/family.ts';

export const ACCOUNTS = 100;
export const SERIES = 1000;

const KEYS = 880;
const VALUES = 100;

const FAMILIES = {
  waiting: {
    name: 'delivery_flow_control_waitlist_size',
    type: 'gauge',
    help: 'Messages or steps waiting on the key at the last read; read in the background, not at scrape time.',
    labels: ['flow_control_key'],
  },
  breakdown: {
    name: 'delivery_dlq_messages_by_url_host',
    type: 'gauge',
    help: 'Entries of the unfiltered dead-letter queue by host; read in the background, not at scrape time.',
    labels: ['url_host'],
  },
  entered: {
    name: 'delivery_dlq_filter_entered_total',
    type: 'counter',
    help: 'Entries of the dead-letter queue first seen.',
    labels: ['filter'],
  },
} as const satisfies Record<string, Family>;

export const families: readonly Family[] = Object.values(FAMILIES);

export function accountName(account: number): string {
  return `production-${String(account).padStart(3, '0')}`;
}

/** Returns a reproducible pseudo-random number (the mixing step of murmur3). */
function mix(...seeds: readonly number[]): number {
  let hash = 0x9747b28c;
  for (const seed of seeds) {
    hash = Math.imul(hash ^ seed, 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
    hash ^= hash >>> 16;
  }
  return hash >>> 0;
}

const TOPICS = ['payments', 'emails', 'webhooks', 'invoices', 'exports', 'search-index', 'thumbnails'];

/** Returns the 1,000 series of an account, by family. Another `version` changes their values. */
export function samplesOf(account: number, version: number): Map<string, readonly Sample[]> {
  const make = (count: number, labels: (index: number) => Record<string, string>, below: number): Sample[] =>
    Array.from({ length: count }, (_, index) => ({
      labels: labels(index),
      value: mix(account, index, version) % below,
    }));
  const key = (index: number) => {
    const hash = mix(account, index);
    return `tenant-${hash.toString(36)}.${TOPICS[hash % TOPICS.length]}`;
  };
  const host = (index: number) => `${TOPICS[index % TOPICS.length]}-${mix(index) % 1000}.example.com`;
  return new Map([
    [FAMILIES.waiting.name, make(KEYS, index => ({ flow_control_key: key(index) }), 2500)],
    [FAMILIES.breakdown.name, make(VALUES, index => ({ url_host: host(index) }), 400)],
    [
      FAMILIES.entered.name,
      make(SERIES - KEYS - VALUES, index => ({ filter: `${TOPICS[index % TOPICS.length]}-${index}` }), 1e6),
    ],
  ]);
}

/** Returns a source of `samples` and a function that changes it to the next version. */
export function createChangingSource(
  account: string | undefined,
  owned: readonly Family[],
  samples: (version: number) => ReadonlyMap<string, readonly Sample[]>,
): { readonly source: Source; change(): void } {
  let version = 0;
  return {
    source: {
      ...(account === undefined ? {} : { account }),
      families: owned,
      revision: () => version,
      samples: () => samples(version),
    },
    change() {
      version++;
    },
  };
}
