import { expect, it } from 'vitest';
import { CANCEL_FAULTS, FAULTS } from './faults.ts';
import { runLives } from './run.ts';
import { ALERTS } from './settings.ts';

// The same lives every time; `npm run model` lives others.
const { MODEL_RUNS = '2000', MODEL_SEED = '1' } = process.env;
/** What must have happened in every two thousand lives: what never happens is never judged. */
const OFTEN: Readonly<Record<string, number>> = {
  DELETE: 200,
  'DELETE by idle (enforce)': 20,
  'DELETE by blind (enforce)': 1,
  'DELETE answered 302': 20,
  'DELETE answered 400': 3,
  'DELETE answered nothing': 3,
  'journal approved': 20,
  'journal ended confirmed': 50,
  'journal ended planned': 10,
  'journal ended superseded': 0,
  'journal breaker_opened': 3,
  'journal cleared': 20,
  stopped: 200,
  'killed at work': 200,
  'killed at the start': 5,
  'clock set forward': 50,
  'clock set back': 50,
  'clock set in the dark': 100,
  'command approve obeyed': 20,
  'command pause obeyed': 20,
  'command resume obeyed': 20,
  'command reset-breaker obeyed': 20,
  'run again by hand': 10,
  'broken answers': 1000,
  'partial answers': 50,
  'failed answers': 1000,
  'commits refused': 500,
  'round dlq full succeeded': 2000,
  'round dlq full failed: store': 20,
  'round events tail succeeded': 2000,
  'round flow_control watch succeeded': 500,
  'numbers compared': 50_000,
};

it(`says and does nothing that is not so, in ${MODEL_RUNS} lives of seed ${MODEL_SEED}`, {
  timeout: Math.max(600_000, Number(MODEL_RUNS) * 200),
}, async () => {
  const { failure, tally } = await runLives({ runs: Number(MODEL_RUNS), seed: Number(MODEL_SEED) });
  expect(failure).toBeUndefined();
  const share = Number(MODEL_RUNS) / 2000;
  // Fewer lives may leave anything out.
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
