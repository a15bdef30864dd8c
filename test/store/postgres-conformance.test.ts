import { describe } from 'vitest';
import { postgresForTests, postgresIsThere } from '../support/postgres.ts';
import { conformanceOf } from './conformance.ts';
import { openHeld } from './postgres-held.ts';

describe.skipIf(!postgresIsThere())('postgres store', () => {
  const postgres = postgresForTests();
  let schemas = 0;
  conformanceOf({
    isLasting: true,
    async fresh() {
      // Creating a schema is faster than creating a database.
      schemas += 1;
      const schema = `store_${schemas}`;
      return async () => {
        // The next process leads at once, although the previous one has not released the lease.
        await postgres()
          .query(`UPDATE ${schema}.lease SET holder = NULL`)
          .catch(() => undefined);
        return openHeld(postgres().url('postgres'), schema);
      };
    },
  });
});
