import type { Fields } from './message.ts';

/** A workflow of which a run fails now and then, and how its failure callback fares. */
export interface Workflow {
  readonly fields: Fields;
  /** What the failing step was answered, and a failing callback is; 0 is no answer. */
  readonly statuses: readonly number[];
  /** Undefined when the workflow has no failure function. */
  readonly callback?: { readonly url: string; readonly maxRetries: number };
  /** Mean milliseconds of an attempt of the callback. */
  readonly callbackTakesMs: number;
  /** Share (0 to 1) of attempts of the callback that fail. */
  readonly callbackFails: number;
}

const STEP = {
  method: 'POST',
  header: { 'Content-Type': ['application/json'], 'Upstash-Workflow-Init': ['false'] },
  maxRetries: 3,
  topicId: '',
} as const;

/** By default a callback may be under way for half an hour (3 retries), with 4 for 6.7 hours, with 5 for 30.7 hours. */
export const workflows: readonly Workflow[] = [
  {
    fields: { ...STEP, url: 'https://app.example.com/api/workflows/signup', label: 'signup', labels: ['signup'] },
    statuses: [500, 502],
    callback: { url: 'https://app.example.com/api/workflows/signup', maxRetries: 3 },
    callbackTakesMs: 1500,
    callbackFails: 0.25,
  },
  {
    fields: {
      ...STEP,
      url: 'https://app.example.com/api/workflows/invoice',
      flowControlKey: 'billing: 100% / tenant?',
    },
    statuses: [500, 503, 0],
    callback: { url: 'https://billing.example.net/failed-run', maxRetries: 4 },
    callbackTakesMs: 9000,
    callbackFails: 0.6,
  },
  {
    fields: { ...STEP, url: 'https://reports.example.com/workflows/nightly' },
    statuses: [504, 0],
    callback: { url: 'https://reports.example.com/workflows/nightly', maxRetries: 5 },
    callbackTakesMs: 40_000,
    callbackFails: 0.7,
  },
  {
    fields: { ...STEP, url: 'https://sync.example.org/workflows/contacts', label: 'sync', labels: ['sync', 'crm'] },
    statuses: [429, 500],
    callbackTakesMs: 1,
    callbackFails: 0,
  },
];
