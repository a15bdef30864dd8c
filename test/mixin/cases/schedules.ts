import type { AlertCase } from './case.ts';

export const scheduleCases: readonly AlertCase[] = [];
