import { describeCases, some } from './crash-matrix.ts';

// All other cases are in auto-cancel-crash.long.test.ts.
describeCases(some);
