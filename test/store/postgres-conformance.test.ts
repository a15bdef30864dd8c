import { describe } from 'vitest';
import { postgresForTests, postgresIsThere } from '../support/postgres.ts';
import { conformanceOf } from './conformance.ts';
import { openHeld } from './postgres-held.ts';

describe.skipIf(!postgresIsThere())('postgres store', () => {
  const postgres = postgresForTests();
  conformanceOf({
    isLasting: true,
    async fresh() {
      const url = await postgres().createDatabase();
      return () => openHeld(url);
    },
  });
});
