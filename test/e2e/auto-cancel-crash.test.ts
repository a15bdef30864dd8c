import { describeCases, some } from './crash-matrix.ts';

// The others are in auto-cancel-crash.long.test.ts.
describeCases(some);
