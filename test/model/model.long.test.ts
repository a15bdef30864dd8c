import { expect, it } from 'vitest';
import { atThisLoad } from '../support/eventually.ts';
import { runs } from '../support/runs.ts';
import { CANCEL_FAULTS, FAULTS } from './faults.ts';
import { runLives } from './run.ts';
import { ALERTS } from './settings.ts';

// The default seed is fixed. `npm run model` uses a random one.
const { MODEL_RUNS = runs(2000, 300), MODEL_SEED = '1' } = process.env;
/** Minimum number of occurrences of each situation in two thousand runs. A situation that never occurs would not be checked. */
const OFTEN: Readonly<Record<string, number>> = {
  DELETE: 200,
  'DELETE by idle (enforce)': 20,
  'DELETE by blind (enforce)': 1,
  'DELETE status 302': 20,
  'DELETE status 400': 3,
  'DELETE without response': 3,
  'journal approved': 20,
  'journal ended confirmed': 50,
  'journal ended planned': 10,
  'journal breaker_opened': 3,
  'journal cleared': 20,
  stopped: 200,
  'killed at work': 200,
  'killed at the start': 3,
  'clock set forward': 50,
  'clock set back': 50,
  'clock set in the dark': 100,
  'order approve done': 20,
  'order pause done': 100,
  'order resume done': 50,
  'order reset-breaker done': 10,
  'journal order_refused': 5,
  'DELETE by a replica': 100,
  // No other check fails if an agent never cancels again after a pause.
  'DELETE after a resume': 100,
  'DELETE after a takeover': 10,
  'pause when looking': 20,
  'pause when intent committed': 5,
  'pause when connecting': 5,
  'pause when sent': 5,
  'handed over': 50,
  reloads: 10,
  'responses of commits lost': 10,
  'run again by hand': 10,
  'broken responses': 1000,
  'partial responses': 50,
  'failed responses': 1000,
  'commits refused': 500,
  'round dlq full succeeded': 2000,
  'round dlq full failed: store': 20,
  'round events tail succeeded': 2000,
  'round flow_control watch succeeded': 500,
  'numbers compared': 50_000,
};

it(`no invariant is violated in ${MODEL_RUNS} simulated runs with seed ${MODEL_SEED}`, {
  timeout: atThisLoad(Math.max(600_000, Number(MODEL_RUNS) * 300)),
}, async () => {
  const { failure, tally } = await runLives({ runs: Number(MODEL_RUNS), seed: Number(MODEL_SEED) });
  expect(failure).toBeUndefined();
  const share = Number(MODEL_RUNS) / 2000;
  // Fewer runs need not cover every situation.
  if (share < 1) return;
  for (const [what, count] of Object.entries(OFTEN)) {
    expect(tally.sum(what), what).toBeGreaterThanOrEqual(count * share);
  }
  for (const fault of [...FAULTS, ...CANCEL_FAULTS]) expect(tally.get(`fault ${fault}`), fault).toBeGreaterThan(0);
  for (const { name } of ALERTS) {
    expect(tally.get(`alert ${name} fires`), name).toBeGreaterThan(0);
    expect(tally.get(`alert ${name} is resolved`), name).toBeGreaterThan(0);
  }
});
