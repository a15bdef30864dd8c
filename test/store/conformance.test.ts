import { join } from 'node:path';
import { describe } from 'vitest';
import { openStore } from '../../src/store/open.ts';
import { newFolder } from '../support/folder.ts';
import { conformanceOf } from './conformance.ts';

describe.each(['memory', 'sqlite'] as const)('%s store', kind => {
  conformanceOf({
    isLasting: kind === 'sqlite',
    async fresh() {
      const path = join(newFolder(), 'rows.db');
      return () => openStore({ kind, path });
    },
  });
});
